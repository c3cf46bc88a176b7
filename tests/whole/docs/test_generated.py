"""Pages and pictures that are made from the code are as the code would make them now."""

import re
from collections.abc import Callable

import pytest

from docs.pictures.__main__ import FOLDER, PICTURES
from reconciler.cli import COMMANDS, pages
from reconciler.settings import Settings
from tests.tools.checkout import DOCS


@pytest.mark.parametrize(
    ("name", "page"), [("settings.md", pages.settings_page), ("commands.md", pages.commands_page)]
)
def test_a_page_is_current(name: str, page: Callable[[], str]):
    assert (DOCS / name).read_text() == page(), "run make docs"


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_current(name: str):
    assert (FOLDER / name).read_text() == PICTURES[name](), "run make docs"


def test_every_setting_has_a_section_with_its_text():
    page = pages.settings_page()
    assert re.findall(r"^## (\w+)$", page, re.MULTILINE) == list(Settings.model_fields)
    for section in page.split("\n## ")[1:]:
        told = section.splitlines()[1]
        assert told.endswith(".")
        assert "; default " in section


def test_every_command_has_a_section_and_codes():
    page = pages.commands_page()
    for name in COMMANDS:
        assert f"\n## {name}\n" in page
        assert f"| `{name}` | 0 |" in page
