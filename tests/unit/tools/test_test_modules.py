"""What tests share stands in modules without tests: a test module can be moved or removed on its own."""

import ast
import re

import pytest

from tests.tools.checkout import ROOT

TESTS = ROOT / "tests"


def imported_tests(text: str) -> list[str]:
    """The test modules that a text imports."""
    found: list[str] = []
    if not re.search(r"[. ]test_\w", text):
        return found  # to parse all files takes seconds
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return [name for name in found if any(part.startswith("test_") for part in name.split("."))]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("from tests.unit.cli.test_top import Rows", ["tests.unit.cli.test_top.Rows"]),
        ("import tests.unit.cli.test_top as top", ["tests.unit.cli.test_top"]),
        ("from tests.unit.cli import test_top", ["tests.unit.cli.test_top"]),
        ("from tests.cli.rows import Rows", []),
    ],
)
def test_an_import_of_a_test_module_is_found(line: str, found: list[str]):
    assert imported_tests(line) == found


def test_no_module_of_the_tests_imports_a_test_module():
    found = {str(path.relative_to(TESTS)): imported_tests(path.read_text()) for path in TESTS.rglob("*.py")}
    assert {path: names for path, names in found.items() if names} == {}
