"""Every page is reached from the index, and no link leads nowhere."""

import re
from functools import cache
from pathlib import Path

import pytest

from tests.tools.checkout import DOCS, ROOT

PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *DOCS.glob("*.md"),
        *DOCS.glob("reference/rules/*.md"),
        *DOCS.glob("tutorial/*.md"),
        *ROOT.glob("deploy/**/*.md"),
        *ROOT.glob("perf/*.md"),
    ]
)
_LINK = re.compile(r"(?<!\\)\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def links(page: Path) -> list[str]:
    return [found for found in _LINK.findall(_FENCE.sub("", page.read_text())) if "://" not in found]


@cache
def anchors(page: Path) -> set[str]:
    """The headings as they are linked to: in small letters, without signs, dashes for spaces."""
    titles = re.findall(r"^#+ (.+)$", _FENCE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path):
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{link} leads nowhere"
        assert not anchor or anchor in anchors(target), f"{path or page.name} has no heading {anchor}"


def test_every_page_is_in_the_index():
    linked = {(DOCS / link.partition("#")[0]).resolve() for link in links(DOCS / "README.md")}
    pages = {*DOCS.glob("*.md"), *DOCS.glob("tutorial/*.md")} - {DOCS / "README.md"}
    missing = sorted(str(page.relative_to(DOCS)) for page in pages - linked)
    assert not missing, "link it from docs/README.md"


def test_every_drawn_picture_is_shown():
    shown = {(page.parent / link).resolve() for page in PAGES for link in links(page)}
    assert [picture.name for picture in (DOCS / "images").glob("*.svg") if picture not in shown] == []


def test_the_readme_leads_to_the_index():
    assert "docs/README.md" in links(ROOT / "README.md")
