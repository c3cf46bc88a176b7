"""The JSON that commands print fits the schemas in docs/schemas, and each command with JSON has one."""

import json
import re
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner
from jsonschema import Draft202012Validator, ValidationError

from reconciler.cli import COMMANDS, main
from tests.tools.checkout import DOCS, ROOT
from tests.tools.doctor_manifests import GPU, claim, part, yaml_of
from tests.tools.output_schemas import FOLDER, fitting, schema

NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))
DEMO = ("-f", str(ROOT / "reconciler" / "cli" / "demo" / "manifests"))
KOORDINATOR = ("-f", str(DOCS / "examples" / "koordinator.yaml"))
TUTORIAL = ("-f", str(DOCS / "tutorial" / "fleet.yaml"), "-f", str(DOCS / "tutorial" / "too-much.yaml"))
LARGE = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: large}
spec:
  devices:
    requests:
    - name: gpu
      exactly:
        deviceClassName: partition
        selectors:
        - cel: {expression: 'device.attributes["gpu.example.com"].profile == "whole"'}
"""
FRAGMENTED = ("-f", str(DOCS / "examples" / "fragmented.yaml"))
LINE = (
    '{"timestamp": "2026-01-01T00:00:00Z", "level": "warning", "event": "claim pending", '
    '"logger": "reconciler.operations.telemetry", "claims": ["a/b"], "reason": "DevicesInUse", '
    '"decision_id": "x"}\n'
)
CASES: dict[str, list[tuple[str, ...]]] = {
    "allocate": [("allocate", *DEMO), ("allocate", *KOORDINATOR)],
    "capacity": [("capacity", *FRAGMENTED, "--demand", str(DOCS / "examples" / "demand.yaml"))],
    "convert": [("convert", *TUTORIAL)],
    "defragment": [("defragment", *FRAGMENTED, "--gain", "whole=1")],
    "doctor": [("doctor", *DEMO), ("doctor", "-f", "broken.yaml")],
    "drain": [("drain", "node-a", *FRAGMENTED), ("drain", "node-a", "-f", "held.yaml", *TUTORIAL[:2])],
    "explain": [
        ("explain", "inference/vision", *DEMO),
        ("explain", "research/whole-a100", *DEMO),
        ("explain", "training/pair", *DEMO),
        ("explain", "three", *TUTORIAL),
    ],
    "explain-list": [("explain", "-A", *DEMO)],
    "fit": [("fit", "-f", str(DOCS / "examples" / "fit-request.yaml"), *FRAGMENTED)],
    "logs": [("logs", "run.log")],
    "make-room": [
        ("make-room", "large", "-f", "large.yaml", *FRAGMENTED, "--priority", "1000"),
        ("make-room", "large", "-f", "large.yaml", *FRAGMENTED, "--priority", "-1"),
    ],
    "modes": [("modes", "-f", str(DOCS / "examples" / "exclusive.yaml")), ("modes", *KOORDINATOR)],
    "top": [
        ("top", *DEMO),
        *(
            ("top", "--by", by, *DEMO)
            for by in ("pool", "node", "model", "namespace", "label=kubernetes.io/hostname")
        ),
    ],
    "top-koordinator": [("top", "--koordinator", *KOORDINATOR)],
    "whatif": [("whatif", *DEMO), ("whatif", "--drain", "node-a", "-f", "held.yaml", *TUTORIAL[:2])],
}
ELSEWHERE = {
    "migrate": "tests/unit/cli/test_migrate.py",
    "release-gates": "tests/unit/cli/test_release_gates.py",
    "replay": "tests/unit/operations/journal/test_replay.py",
}
"""Schemas of commands whose tests validate the output"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    here = tmp_path_factory.mktemp("schemas")
    (here / "run.log").write_text(LINE)
    (here / "broken.yaml").write_text(yaml_of(GPU, part("s", {"name": "a"}, count=2), claim("c")))
    (here / "large.yaml").write_text(LARGE)
    claims = ("-f", str(DOCS / "tutorial" / "claims.yaml"))
    held = CliRunner().invoke(main, ["allocate", *TUTORIAL[:2], *claims, "-o", "yaml"])
    (here / "held.yaml").write_text(held.stdout)
    return here


@pytest.mark.parametrize(
    ("name", "words"), [(name, words) for name in CASES for words in CASES[name]], ids=str
)
def test_output_fits_its_schema(
    name: str, words: tuple[str, ...], folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(folder)
    result = CliRunner().invoke(main, [*words, "-o", "json"])
    assert result.exit_code in (0, 1, 3), result.output
    fitting(name, result.stdout)


@pytest.mark.parametrize("words", [CASES[name][0] for name in ("doctor", "logs", "modes")], ids=str)
def test_yaml_says_what_json_says(words: tuple[str, ...], folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(folder)
    by_json, by_yaml = (CliRunner().invoke(main, [*words, "-o", form]) for form in ("json", "yaml"))
    assert by_json.exit_code == by_yaml.exit_code
    assert yaml.safe_load(by_yaml.stdout) == json.loads(by_json.stdout)


def test_every_command_with_json_has_a_schema_and_every_schema_is_tested():
    with_json = set()
    for name in COMMANDS:
        command = main.get_command(click.Context(main), name)
        assert command is not None
        for param in command.params:
            if (
                param.name == "output"
                and isinstance(param.type, click.Choice)
                and "json" in param.type.choices
            ):
                with_json.add(name)
                assert "yaml" in param.type.choices, name
    assert with_json == {*NAMES} - {"top-koordinator", "explain-list"}
    assert {*NAMES} == CASES.keys() | ELSEWHERE.keys()
    for name, module in ELSEWHERE.items():
        assert f'"{name}"' in (ROOT / module).read_text()
    page = (FOLDER / "README.md").read_text()
    assert re.findall(r"^- \[(\S+)\.json\]", page, re.MULTILINE) == NAMES


def test_requests_that_the_command_takes_fit_their_schema_and_others_do_not():
    asked = next(yaml.safe_load_all((DOCS / "examples" / "fit-request.yaml").read_text()))
    checked = Draft202012Validator(json.loads((FOLDER / "requests" / "fit-request.json").read_text()))
    checked.validate(asked)
    wrong: Any
    for wrong in ({"podSets": []}, {"more": 1}, {"podSets": [{"name": "s"}]}, {"kind": "Demand"}):
        assert list(checked.iter_errors(asked | wrong)), wrong


def branches(node: Any) -> list[Any]:
    """Every part of a schema."""
    inner = list(node.values()) if isinstance(node, dict) else node if isinstance(node, list) else []
    return [node, *(found for one in inner for found in branches(one))]


@pytest.mark.parametrize("name", NAMES)
def test_every_object_of_ours_names_all_its_fields(name: str):
    for one in branches(json.loads((FOLDER / f"{name}.json").read_text())):
        if isinstance(one, dict) and one.get("additionalProperties") is False:
            assert one["required"] == list(one["properties"])


def test_a_field_that_the_schema_does_not_know_is_noticed():
    found = {"dryRun": True, "pods": [], "more": 1}
    with pytest.raises(ValidationError):
        schema("release-gates").validate(found)


PLAIN = {
    "amount", "claim", "context", "count", "device", "devices", "driver", "message", "name", "node", "nodes",
    "pods", "pool", "request", "result", "shape", "unit",
}  # fmt: skip
"""Fields that need no description: their names are their meanings"""


DESCRIBED = "capacity defragment drain explain fit make-room modes top whatif"


@pytest.mark.parametrize("name", DESCRIBED.split())
def test_every_field_of_an_answer_to_a_question_says_what_it_means(name: str):
    silent = set()
    for one in branches(json.loads((FOLDER / f"{name}.json").read_text())):
        fields = one.get("properties", {}) if isinstance(one, dict) else {}
        silent |= {key for key, of in fields.items() if "description" not in of | of.get("items", {})}
    assert silent <= PLAIN
