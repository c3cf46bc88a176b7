"""A real Chromium without a window, where there is one; a machine of continuous integration must have it."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from tests.tools.browsing import Browser

FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
PAGE_SECONDS = 30


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    """One browser for all tests of a process, with a profile of its own."""
    programs = {name: shutil.which(name) for name in ("chromium", "chromedriver")}
    missing = [name for name, path in programs.items() if path is None]
    if missing:
        text = f"no {' and no '.join(missing)} here; on Debian: apt-get install chromium chromium-driver"
        if os.environ.get("CI"):
            pytest.fail(text)
        pytest.skip(text)
    options = webdriver.ChromeOptions()
    options.binary_location = str(programs["chromium"])
    profile: Path = tmp_path_factory.mktemp("chromium")
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = webdriver.Chrome(options, Service(str(programs["chromedriver"])))
    try:
        browser.set_page_load_timeout(PAGE_SECONDS)
        yield browser
    finally:
        browser.quit()


@pytest.fixture
def browser(chromium: webdriver.Chrome) -> Iterator[Browser]:
    """A browser on an empty page, with an empty console."""
    chromium.get("about:blank")
    chromium.get_log("browser")
    yield Browser(chromium)
    chromium.get("about:blank")  # so that no server waits for its stream to end
