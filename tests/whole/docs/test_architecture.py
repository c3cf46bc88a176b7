"""docs/architecture.md names every package, the rule of imports, every dependency, and only what exists."""

import ast
import re
import tomllib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

from docs.pictures import rooms as picture
from tests.tools.checkout import DOCS, ROOT
from tests.tools.rooms import BESIDE, LEVELS, LOOKS_OUT
from tests.tools.structure import entries, entry, imports, levels, modules, way_of_a_claim

PAGE = (DOCS / "architecture.md").read_text()
_FILE = re.compile(r"`((?:[\w-]+/)*[\w-]+\.py)(?:: (\w+))?`")
_FOLDER = re.compile(r"`((?:[a-z_]+/)+[a-z_]*)`")
_ITEM = re.compile(r"^- `?([^`:]+)`?: ", re.MULTILINE)
OTHERWISE = {"cel-python": "celpy", "google-re2": "re2", "pyyaml": "yaml"}
"""Distribution -> module, where the names differ by more than a dash"""
NOT_IMPORTED = {"cel-python"}
"""Used without an import: the page says why"""


def section(title: str) -> str:
    (found,) = re.findall(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    return str(found)


def items(title: str) -> list[str]:
    """What the items of a section's list are about."""
    return _ITEM.findall(section(title))


def named(path: str) -> Path:
    return next((at for at in (ROOT / "reconciler" / path, ROOT / path) if at.exists()), ROOT / path)


@cache
def defined(path: str) -> frozenset[str]:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    tree = ast.parse(named(path).read_text())
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, kinds))


def joined(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


def test_every_package_is_listed():
    packages = {path.parent for path in (ROOT / "reconciler").glob("*/**/__init__.py")}
    expected = {str(path.relative_to(ROOT / "reconciler")) for path in packages} | {"kernels"}
    listed = items("Rooms and packages")
    assert sorted(listed) == sorted(expected)


def test_every_file_and_function_exists():
    found = [(match[1], match[2]) for match in _FILE.finditer(PAGE)]
    assert [path for path, _ in found if not named(path).is_file()] == []
    assert [(path, name) for path, name in found if name and name not in defined(path)] == []


def test_every_folder_exists():
    assert [path for path in _FOLDER.findall(PAGE) if not named(path).is_dir()] == []


def test_the_rule_of_imports_is_the_one_that_is_checked():
    text = section("The rule of imports")
    levels, beside = re.findall(r"^```\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert [set(level.split(", ")) for level in levels.strip().split(" < ")] == list(LEVELS)
    assert beside.splitlines() == [f"{room} imports {joined(wanted)}" for room, wanted in BESIDE.items()]
    above = f"Only {', '.join(LOOKS_OUT)} import settings, cluster, ha as well. Only cli imports embedded."
    assert above in text


def test_the_picture_shows_the_same_levels():
    assert [set(level) for level in picture.LEVELS] == list(LEVELS)
    assert {room for room, _ in picture.BESIDE} == BESIDE.keys()


def test_every_dependency_is_listed_and_used():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    required = {re.split(r"[<>=~!]", requirement)[0] for requirement in project["dependencies"]}
    assert sorted(items("Dependencies")) == sorted(required)
    imported = {name.partition(".")[0] for path in modules().values() for name in imports(path)}
    wanted = {name: OTHERWISE.get(name, name.replace("-", "_")) for name in required - NOT_IMPORTED}
    assert [name for name, module in wanted.items() if module not in imported] == []


def test_the_glossary_is_sorted_and_says_each_word_once():
    words = items("Glossary")
    assert len(words) > 20
    assert words == sorted(set(words))


# -- How a claim gets from its watch event to its write-back, through the rooms of the program.


UP = {
    ("reconciler.api.objects.plan", "reconciler.allocation.dra.result"),
    ("reconciler.control.background_search", "reconciler.app.control"),
    ("reconciler.cluster.watch", "reconciler.control.intake"),
    ("reconciler.cluster.events", "reconciler.control.intake"),
    ("reconciler.cluster.client", "reconciler.operations.metrics.meters"),
    ("reconciler.control.decisions.declaration", "reconciler.operations.events_recorder"),
    ("reconciler.control.decisions.declaration", "reconciler.operations.metrics.meters"),
    ("reconciler.control.decisions.declaration", "reconciler.operations.telemetry"),
    ("reconciler.control.loop", "reconciler.operations.metrics.meters"),
    ("reconciler.control.loop", "reconciler.operations.telemetry"),
}
"""Calls from a room to a higher one: of functions and objects that the lower one was given"""


@pytest.mark.loopback
async def test_few_calls_go_to_a_higher_room():
    level = levels(entries())
    calls = [call[:2] for call in await way_of_a_claim()]
    assert {(caller, callee) for caller, callee in calls if level[entry(callee)] > level[entry(caller)]} <= UP
    assert ("reconciler.cluster.watch", "reconciler.control.intake") in calls
