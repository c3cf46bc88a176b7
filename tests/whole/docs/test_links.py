"""Every page is reached from the index, and no link leads nowhere."""

import re
from functools import cache
from pathlib import Path

import pytest

from docs import pages
from docs.pictures.__main__ import FOLDER, PICTURES
from reconciler.operations.log_catalogue import EVENTS, FIELDS
from reconciler.operations.metrics.catalogue import CATALOGUE
from reconciler.settings import Settings
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


def test_every_link_leads_somewhere():
    for page in PAGES:
        for link in links(page):
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            assert target.exists(), f"{page}: {link} leads nowhere"
            assert not anchor or anchor in anchors(target), f"{page}: {link} names no heading"


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


# -- Pages and pictures that are made from the code are as the code would make them now.


@pytest.mark.parametrize("name", pages.PAGES)
def test_a_page_is_current(name: str):
    assert (DOCS / f"{name}.md").read_text() == pages.PAGES[name](), "run make docs"


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_current(name: str):
    assert (FOLDER / name).read_text() == PICTURES[name](), "run make docs"


def test_every_setting_metric_event_and_field_is_listed():
    items = re.findall(r"^ *- (`.+?)(?::|$)", "".join(page() for page in pages.PAGES.values()), re.MULTILINE)
    listed = re.findall(r"`([^`]+)`", "".join(items))
    assert {*Settings.model_fields, *EVENTS, *FIELDS} <= {*listed}
    assert {spec.full_name for spec in CATALOGUE} <= {*listed}
    assert {label for spec in CATALOGUE for label in spec.label_names} <= {*listed}
