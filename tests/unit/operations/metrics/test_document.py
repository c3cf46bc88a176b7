"""docs/metrics.md says what the catalogue says."""

from reconciler.operations.metrics.catalogue import CATALOGUE
from reconciler.operations.metrics.document import page
from tests.tools.checkout import DOCS


def test_the_page_is_the_one_that_the_catalogue_makes():
    """If not: python -m reconciler.operations.metrics.document > docs/metrics.md"""
    assert (DOCS / "metrics.md").read_text() == page()


def test_every_metric_has_a_heading_and_every_label_a_row():
    text = page()
    for spec in CATALOGUE:
        assert f"\n## {spec.full_name}\n" in text
        assert all(f"\n| `{label}` | " in text for label in spec.label_names)
