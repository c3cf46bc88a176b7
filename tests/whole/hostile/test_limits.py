"""docs/limits.md says what the code says."""

import re
from importlib import import_module

import pytest

from tests.tools.checkout import DOCS

PAGE = (DOCS / "limits.md").read_text()
ROWS = re.findall(r"^- (.+): (\d+)[^(\n]* \(`([\w.]+)`\): .+$", PAGE, re.M)
"""What, the limit, and where it is defined"""


def test_every_row_is_read():
    rows = [line for line in PAGE.splitlines() if "(`reconciler." in line]
    assert len(ROWS) == len(rows) > 40


@pytest.mark.parametrize(("what", "limit", "where"), ROWS, ids=[where for _, _, where in ROWS])
def test_the_page_tells_the_limit_of_the_code(what: str, limit: str, where: str):
    module, _, name = where.rpartition(".")
    assert getattr(import_module(module), name) == int(limit), what
