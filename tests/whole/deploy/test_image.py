"""The image's recipe: it can be read, takes nothing that is not locked, and can say what it holds.

It is not built here, for want of an engine; the commands that need none are run.
"""

import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions, requires, version
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from docs.third_party import page
from tests.tools.checkout import ROOT
from tests.tools.image import ALL, IMAGE, RECIPE, locked

RUNNING = locked(ROOT / "requirements-run.lock")


def runs() -> list[tuple[str, ...]]:
    return [step.value for step in RECIPE if step.cmd.lower() == "run"]


def command(program: str) -> tuple[str, ...]:
    """The one step that runs a program."""
    (found,) = (words for words in runs() if Path(words[0]).name == program)
    return found


def test_the_base_is_an_argument_that_a_digest_can_be_given_in():
    arguments = [step for step in RECIPE if step.cmd.lower() == "arg"]
    assert [step.value[0].partition("=")[0] for step in arguments] == ["BASE"]
    assert [step.value[0] for step in RECIPE if step.cmd.lower() == "from"] == ["${BASE}", "build", "${BASE}"]


def test_what_is_installed_is_locked_by_hash():
    for words in runs():
        if "install" in words:
            assert "--require-hashes" in words or "--no-index" in words, words
    assert all((*IMAGE.values(), *ALL.values()))


def test_the_image_holds_what_was_tested_and_no_tools():
    assert IMAGE.items() <= ALL.items()
    names = {name for name, _ in IMAGE}
    assert not {"pytest", "mypy", "hatchling", "cyclonedx-bom", "selenium", "hypothesis"} & names
    assert {"aiohttp", "numpy", "kubernetes-asyncio"} <= names


def test_every_dependency_is_imported_and_there_are_few():
    """Those of a user's installation. Of cel-python, only the grammar is read."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    direct = [Requirement(text).name for text in declared["dependencies"]]
    source = "".join(path.read_text() for path in (ROOT / "reconciler").rglob("*.py"))
    imported = {*re.findall(r"^\s*(?:from|import) (\w+)", source, re.M), "celpy"}
    assert 'find_spec("celpy")' in source
    tops: dict[str, set[str]] = {}
    for top, names in packages_distributions().items():
        for name in names:
            tops.setdefault(canonicalize_name(name), set()).add(top)
    assert [name for name in direct if not tops[canonicalize_name(name)] & imported] == []
    assert len(direct) <= 16


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
TOOLS = {
    *("check-jsonschema", "cyclonedx-bom", "editables", "mypy", "pytest-asyncio", "pytest-xdist", "ruff"),
    *("distributed", "kopf", "types-pyyaml"),
}
"""What is called, or loaded by another, without an import"""


def needed(*requirements: str) -> set[str]:
    """These and what they need in turn."""
    ahead, found = list(requirements), set[str]()
    while ahead:
        one = Requirement(ahead.pop())
        name = canonicalize_name(one.name)
        key = f"{name}[{','.join(sorted(one.extras))}]"
        here = [{"extra": extra} for extra in ("", *one.extras)]
        if key not in found:
            found |= {name, key}
            further = map(Requirement, requires(name) or ())
            ahead += [
                str(each) for each in further if each.marker is None or any(map(each.marker.evaluate, here))
            ]
    return {name for name in found if "[" not in name}


def test_the_lock_of_the_image_holds_only_what_dependencies_need():
    assert {name for name, _ in IMAGE} == needed(*PROJECT["dependencies"], *EXTRAS["otel"])


def test_the_lock_of_tests_holds_only_what_somebody_imports_or_calls():
    tested = [text for extra in ("dev", "otel", "perf", "sweep") for text in EXTRAS[extra]]
    locked = (ROOT / "requirements.lock").read_text()
    elsewhere = set(re.findall(r"^([a-z0-9.-]+)==\S+ ;", locked, re.M))  # other systems and Pythons
    assert {name for name, _ in ALL} - elsewhere <= needed(*PROJECT["dependencies"], *tested)
    folders = ("reconciler", "tests", "perf", "docs")
    source = [path.read_text() for folder in folders for path in (ROOT / folder).rglob("*.py")]
    source.append((ROOT / "hatch_build.py").read_text())
    imported = set(re.findall(r"^\s*(?:from|import) (\w+)", "\n".join(source), re.M))
    tops: dict[str, set[str]] = {}
    for top, names in packages_distributions().items():
        for name in names:
            tops.setdefault(canonicalize_name(name), set()).add(top)
    direct = {canonicalize_name(Requirement(text).name) for text in tested}
    assert {name for name in direct if not tops[name] & imported} == TOOLS


@pytest.mark.skipif(
    f"| numpy | {version('numpy')}" not in page(), reason="another NumPy than those of the lock is installed"
)
def test_the_page_of_what_the_image_holds_is_current():
    assert (ROOT / "deploy" / "THIRD-PARTY.md").read_text() == page()


def test_what_make_run_installs_is_locked_as_what_is_tested_and_has_no_tools_of_tests():
    assert RUNNING.items() <= ALL.items()
    names = {name for name, _ in RUNNING}
    assert {"hatchling", "aiohttp", "numpy"} <= names
    assert not {"pytest", "mypy", "opentelemetry-sdk", "matplotlib"} & names


def test_everything_that_is_copied_exists():
    for step in RECIPE:
        if step.cmd.lower() == "copy" and not step.flags:
            assert all((ROOT / source).exists() for source in step.value[:-1]), step.original


def test_it_runs_as_nobody_and_starts_the_command():
    last = max(number for number, step in enumerate(RECIPE) if step.cmd.lower() == "from")
    steps = {step.cmd.lower(): step.value for step in RECIPE[last:]}
    assert steps["user"] == ("65532:65532",)
    assert (steps["entrypoint"], steps["cmd"]) == (("/venv/bin/dra-reconciler",), ("run",))


def test_the_step_that_lists_what_is_inside_works(tmp_path: Path):
    here = {
        "/tools/bin/cyclonedx-py": str(Path(sys.executable).with_name("cyclonedx-py")),
        "/venv/bin/python": sys.executable,
        "/venv/sbom.cdx.json": str(tmp_path / "sbom.json"),
    }
    words = [here.get(word, word) for word in command("cyclonedx-py")]
    words.insert(2, "--no-validate")  # it checks itself against its schema, which takes ten seconds
    subprocess.run(words, cwd=ROOT, check=True, capture_output=True)
    made: Any = json.loads((tmp_path / "sbom.json").read_text())
    assert made["bomFormat"] == "CycloneDX"
    assert made["metadata"]["component"]["name"] == "dra-reconciler"
    listed = {(part["name"].lower().replace("_", "-"), part["version"]) for part in made["components"]}
    for name in ("aiohttp", "numpy", "pydantic"):
        assert any(one[0] == name for one in listed & IMAGE.keys())
    assert all(part["purl"].startswith("pkg:pypi/") for part in made["components"] if "purl" in part)
