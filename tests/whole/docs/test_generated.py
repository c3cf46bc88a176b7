"""Pages and pictures that are made from the code are as the code would make them now."""

import re

import pytest

from docs.pictures.__main__ import FOLDER, PICTURES
from reconciler.cli import pages
from reconciler.operations.logs.catalogue import EVENTS, FIELDS
from reconciler.operations.metrics.catalogue import CATALOGUE
from reconciler.settings import Settings
from tests.tools.checkout import DOCS


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
