"""Rules that comments and tests cite by number: each has a heading, a source and tests on its page."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.tools.checkout import ROOT

RULES = ROOT / "docs" / "reference" / "rules"
INDEX = RULES / "README.md"
PAGES = sorted(page for page in RULES.glob("*.md") if page != INDEX)

NOT_RULES = {"E", "GPU", "KEP", "SSH", "UTF"}
"""What stands before a dash and a number elsewhere: exponents, names of devices, KEPs, standards"""

_HEADING = re.compile(r"^## ([A-Z]+-\d+)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_CITED = re.compile(r"\b([A-Z]{1,6})-(\d+)(?:\s+to\s+(?:\1-)(\d+))?\b")
_EXAMPLE = re.compile(r"(?<![\w.-])T[1-9]\d?b?(?=[ ,:\"])")
_EXAMPLE_ROW = re.compile(r"^\| (T\d+b?) \|", re.MULTILINE)
_TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
_SECTION = re.compile(r"(?<!RFC \d{4}, )\bsections?\s+\d", re.IGNORECASE)
_PAGE = re.compile(r"docs/reference/rules/[\w-]+\.md")
_ROW = re.compile(r"^\| \[[^]]+\]\(([\w-]+\.md)\) \| ([A-Z, ]+) \|", re.MULTILINE)


@cache
def texts() -> dict[Path, str]:
    """All code, tests and pages, without the pages of rules."""
    files = [
        *(
            path
            for folder in ("reconciler", "kernels", "tests", "perf")
            for path in (ROOT / folder).rglob("*.py")
        ),
        *(path for path in (ROOT / "docs").rglob("*.md") if path.parent != RULES),
        *ROOT.glob("*.md"),
    ]
    return {path: path.read_text() for path in files}


@cache
def pages() -> dict[Path, str]:
    return {page: page.read_text() for page in PAGES}


def headings() -> list[tuple[str, str]]:
    """Every rule and what is written below it."""
    return [(found[1], found[2]) for text in pages().values() for found in _HEADING.finditer(text)]


def numbers(text: str) -> Iterator[str]:
    """The rules that a text cites; of a range all of them."""
    for family, first, last in _CITED.findall(text):
        if family not in NOT_RULES:
            yield from (f"{family}-{number}" for number in range(int(first), int(last or first) + 1))


@cache
def functions(path: Path) -> frozenset[str]:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in ast.walk(ast.parse(texts()[path])) if isinstance(node, kinds))


def where(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_every_number_that_is_cited_is_a_rule():
    known = {number for number, _ in headings()}
    cited = {**texts(), **pages(), INDEX: INDEX.read_text()}
    unknown = {(where(path), number) for path, text in cited.items() for number in numbers(text)}
    missing = sorted((path, number) for path, number in unknown if number not in known)
    assert missing == [], "write the rule in docs/reference/rules, or add what is no rule to NOT_RULES"


def test_every_rule_is_cited_and_written_once():
    count = Counter(number for number, _ in headings())
    assert [number for number, times in count.items() if times > 1] == []
    cited = {number for text in texts().values() for number in numbers(text)}
    assert sorted(count.keys() - cited) == [], "cite the rule where the code does it, or remove it"


def test_every_rule_has_a_source_and_a_test_that_exists():
    for number, body in headings():
        assert re.search(r"^- Source: \S", body, re.MULTILINE), f"{number} has no source"
        assert re.search(r"^- Tests?: `tests/", body, re.MULTILINE), f"{number} names no test"


def test_every_test_that_a_page_names_exists():
    named = {pair for text in (*pages().values(), INDEX.read_text()) for pair in _TEST.findall(text)}
    files = {path: ROOT / path for path, _ in named}
    assert sorted(path for path, file in files.items() if file not in texts()) == []
    assert sorted(pair for pair in named if pair[1] not in functions(files[pair[0]])) == []


def test_every_example_that_tests_name_is_listed():
    listed = _EXAMPLE_ROW.findall((RULES / "examples.md").read_text())
    named = {
        number
        for path, text in texts().items()
        if path.name.startswith("test_") and path.suffix == ".py"
        for number in _EXAMPLE.findall(text)
    }
    assert len(listed) == len(set(listed))
    assert named == set(listed)


def test_no_section_of_an_unnamed_document_is_cited():
    code = {path: text for path, text in texts().items() if path.suffix == ".py"}
    assert [where(path) for path, text in code.items() if _SECTION.search(text)] == []


def test_pages_that_code_refers_to_exist():
    referred = {page for text in texts().values() for page in _PAGE.findall(text)}
    assert referred
    assert sorted(page for page in referred if not (ROOT / page).exists()) == []


def test_the_index_lists_every_page_with_its_numbers():
    listed = {page: families.split(", ") for page, families in _ROW.findall(INDEX.read_text())}
    found = {
        page.name: [number.partition("-")[0] for number, _ in _HEADING.findall(text)]
        for page, text in pages().items()
    }
    found["examples.md"] = ["T"]
    assert {page: set(families) for page, families in listed.items()} == {p: set(f) for p, f in found.items()}
