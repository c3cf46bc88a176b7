"""The renderer of the tests makes of templates what Go makes of them, and refuses what it does not know."""

import ast
import asyncio
import re

import pytest

from tests.tools.checkout import ROOT
from tests.tools.go_template import NotInOurPart, render
from tests.tools.virtual_time import VirtualLoop


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("a {{ .x }} b", "a 1 b"),
        ("a\n {{- .x }} b", "a1 b"),
        ("a {{ .x -}} \n b", "a 1b"),
        ("{{ if .no }}a{{ else }}b{{ end }}", "b"),
        ("{{ if .x }}{{ if .no }}a{{ end }}c{{ else }}b{{ end }}", "c"),
        ("{{ if .missing }}{{ nothing }}{{ end }}", ""),
        ("{{ with .m }}{{ .k }}{{ end }}", "v"),
        ("{{ with .empty }}a{{ else }}{{ .x }}{{ end }}", "1"),
        ('{{ .s | replace "a" .t2 }}', 'x"b'),
        ('{{ .s | quote }}', '"a\\"b"'),
        ('{{ "x" | default .s | printf "%s-%s" "y" }}', "y-x"),
        ('{{ .l | join "," }}', "p,q"),
        ("k:\n  {{- toYaml .m | nindent 2 }}", "k:\n  k: v"),
        ('{{ if eq .s "a" }}a{{ end }}{{ if ne .x 2 }}b{{ end }}', "b"),
        ("{{ .t }}", "true"),
        ("{{ if and .x .no }}a{{ end }}{{ if or .no .x }}b{{ end }}{{ if not .no }}c{{ end }}", "bc"),
        ('{{ if eq .x 2 | or .no .empty }}a{{ else }}b{{ end }}', "b"),
        ('{{ if .x | int | ge 1 }}a{{ end }}{{ .l | first }}{{ .l | toJson }}', 'ap["p","q"]'),
    ],
)  # fmt: skip
def test_templates_become_the_text_that_go_makes(template: str, text: str):
    dot = {
        "x": 1, "m": {"k": "v"}, "empty": {}, "s": 'a"b',
        "l": ["p", "q"], "no": False, "t": True, "t2": "x",
    }  # fmt: skip
    assert render(template, dot) == text


@pytest.mark.parametrize(
    "template",
    [
        "{{ if .x }}", "{{ end }}", "{{ else }}", "{{ range .l }}{{ end }}", "{{ include .x }}", "{{ .x",
        "{{ $y := .x }}", "{{ .m }}", "{{ .x.y }}", "{{ (eq .x 1) }}", "{{ .x 1 }}", '{{ printf "%d" .x }}',
    ],
)  # fmt: skip
def test_what_goes_beyond_our_part_is_refused(template: str):
    with pytest.raises(NotInOurPart):
        render(template, {"x": 1, "m": {}, "l": []})


# -- What tests share stands in modules without tests: a test module can be moved or removed on its own.


TESTS = ROOT / "tests"


def imported_tests(text: str) -> list[str]:
    """The test modules that a text imports."""
    found: list[str] = []
    if not re.search(r"[. ]test_\w+\b(?!\()", text):
        return found  # to parse all files takes seconds
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    found = [name for name in found if name.startswith(("tests.", "test_"))]
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


# -- The clock of the tests: exact, free, and never hanging.


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_an_hour_takes_exactly_an_hour():
    before = now()
    await asyncio.sleep(3600)
    assert now() - before == 3600


async def test_a_timer_that_was_cancelled_does_not_move_the_clock():
    async with asyncio.timeout(100):
        await asyncio.sleep(1)
    await asyncio.sleep(0.5)
    assert now() == 1.5


async def test_time_stands_still_while_anything_can_run():
    asyncio.get_running_loop().call_later(5, lambda: None)
    for _ in range(100):
        await asyncio.sleep(0)
    assert now() == 0


async def test_work_in_a_thread_is_waited_for():
    assert await asyncio.to_thread(lambda: 7) == 7


def test_a_deadlock_is_an_error():
    """Found at once, instead of by whoever kills the test run."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner, pytest.raises(RuntimeError, match="deadlock"):
        runner.run(asyncio.Event().wait())
