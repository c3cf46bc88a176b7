"""The picture of docs/status-page.md: the page of the demonstration's fleet in a real Chromium.

Run `python -m docs.pictures.status_page`. `python -m docs.pictures` leaves it out, because it needs chromium
and chromedriver, and because fonts make the picture differ between machines.
"""

import re
import shutil
import subprocess
import sys
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait

ROOT = Path(__file__).parents[2]
TARGET = ROOT / "docs" / "images" / "status-page.png"
WIDTH = 1400
SECONDS = 60
FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars")
READY = """
const text = document.body.textContent;
return document.getElementById('live').textContent === 'Live' && !text.includes('ClaimNotMade')
  && document.querySelectorAll('#waiting li').length >= arguments[0]
  && [...document.querySelectorAll('#waiting time')].every((one) => parseInt(one.textContent) >= 12)
  && !document.getAnimations().length;
"""
PENDING = 6
"""Claims of the demonstration that cannot be allocated. After some seconds nothing changes any more"""


def main() -> None:
    """Run the demonstration, open its page and write the picture."""
    with serving("reconciler/cli/demo/manifests") as url, browsing(WIDTH) as browser:
        browser.get(url)
        WebDriverWait(browser, SECONDS).until(lambda seen: seen.execute_script(READY, PENDING))
        TARGET.write_bytes(captured(browser, WIDTH))


@contextmanager
def serving(manifests: str) -> Iterator[str]:
    """The address of the page of a reconciler with an API server of its own."""
    arguments = ["run", "--embedded", "-f", manifests, "--status-port", "0"]
    with subprocess.Popen(
        [sys.executable, "-m", "reconciler", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            yield _address(process)
        finally:
            process.terminate()


@contextmanager
def browsing(width: int) -> Iterator[webdriver.Chrome]:
    """A Chromium without a window."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    with TemporaryDirectory() as profile:
        for flag in (*FLAGS, f"--user-data-dir={profile}", f"--window-size={width},900"):
            options.add_argument(flag)
        browser = webdriver.Chrome(options, Service(shutil.which("chromedriver")))
        try:
            yield browser
        finally:
            browser.quit()


def captured(browser: webdriver.Chrome, width: int, most: int = 8000) -> bytes:
    """The page from its top as PNG, as high as it is at this width."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    height = browser.execute_script(
        "return Math.max(document.body.scrollHeight, ...['.lists', '.maps']"
        ".map((one) => document.querySelector(one)).filter((one) => one)"
        ".map((one) => one.getBoundingClientRect().top + one.scrollHeight + 24))"
    )
    size["height"] = min(int(height), most)
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    return b64decode(browser.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})["data"])


def _address(process: subprocess.Popen[str]) -> str:
    """The address of the status port, from the log."""
    assert process.stdout is not None
    for line in process.stdout:
        found = re.search(r"https?://[\w.:\[\]-]+", line) if "status served" in line else None
        if found is not None:
            Thread(target=process.stdout.read, daemon=True).start()  # a full pipe would stop the process
            return found[0]
    raise SystemExit("the reconciler ended before it served the page")


if __name__ == "__main__":
    main()
