"""Where things of the repository are, wherever a test is."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
SHARED = ROOT.parent / "shared"
"""Specifications, samples and recorded answers beside the checkout; not everybody has them"""


def needs(path: Path) -> pytest.MarkDecorator:
    """Skips a test if data beside the checkout is not there. In CI, once some is there, nothing is skipped:
    the test then fails for want of its file.
    """
    laid = bool(os.environ.get("CI")) and SHARED.exists()
    return pytest.mark.skipif(
        not path.exists() and not laid, reason=f"not beside the checkout: {path.relative_to(SHARED.parent)}"
    )
