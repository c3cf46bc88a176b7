"""What people read fits 80 columns: no word is broken, no line is longer, none ends with blanks."""

import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from reconciler.cli import COMMANDS, main
from reconciler.cli.demo import MANIFESTS
from tests.tools.builders import Object, partitioned
from tests.tools.checkout import ROOT
from tests.tools.koordinator_builders import gpu
from tests.tools.koordinator_cluster import machine, wants
from tests.tools.short_manifests import CLASS, claim, gpus, pod, template, together
from tests.tools.small_fleet import claim as claim_object
from tests.tools.small_fleet import held

WIDTH = 80
NODES = 12
LONG = "ip-10-0-12-{:02}.eu-west-1.compute.internal"


def small() -> str:
    wrong = claim("wrong").replace("gpu.example.com", "gpu.exampel.com")
    return together(CLASS, gpus("n1", 1), template("t"), pod("p", "x:t"), claim("c"), claim("d", 3), wrong)


@cache
def large() -> str:
    """Many nodes with the names of a cloud, partitions, and claims of a team with long names."""
    objects: list[Object] = [one for at in range(NODES) for one in partitioned(LONG.format(at))]
    holder = claim_object("training-job-with-a-long-name")
    objects.append({**holder, "status": held("d", LONG.format(0), "left")})
    many = [claim(f"inference-service-with-a-long-name-{at}", 4) for at in range(NODES)]
    return together(CLASS, gpus(LONG.format(7), 64), yaml.safe_dump_all(objects), *many)


@cache
def machines() -> str:
    pods = [wants(f"training-{at}", {"nvidia.com/gpu": 1 + at % 3}) for at in range(12)]
    found = [machine(LONG.format(at), *(gpu(minor) for minor in range(8))) for at in range(4)]
    return yaml.safe_dump_all([*found, *pods])


EXCLUSIVE = ROOT / "docs" / "exclusive-devices.md"


def exclusive() -> str:
    page = EXCLUSIVE.read_text()
    return page.partition("```yaml\n")[2].partition("```")[0]


INPUTS: Mapping[str, Callable[[], str]] = {
    "small": small, "large": large, "demo": str, "machines": machines, "exclusive": exclusive,
}  # fmt: skip
ASKED_PODS = str(ROOT / "docs" / "examples" / "fit-request.yaml")
ASKED: Mapping[str, tuple[str, ...]] = {
    "allocate": ("allocate", "-f", "IN"),
    "capacity": ("capacity", "-f", "IN", "--pending"),
    "defragment": ("defragment", "-f", "IN", "--gain", "node=1"),
    "doctor": ("doctor", "-f", "IN"),
    "explain": ("explain", "CLAIM", "-f", "IN"),
    "fit": ("fit", "-f", ASKED_PODS, "-f", "IN"),
    "make-room": ("make-room", "CLAIM", "-f", "IN"),
    "drain": ("drain", "NODE", "-f", "IN"),
    "modes": ("modes", "-f", "IN"),
    "top": ("top", "-f", "IN"),
    "top by pool": ("top", "-f", "IN", "--by", "pool"),
    "top by node": ("top", "-f", "IN", "--by", "node"),
    "top of machines": ("top", "-f", "IN", "--koordinator", "--by", "node"),
    "whatif": ("whatif", "-f", "IN", "--drain", "NODE"),
    "whatif copies": ("whatif", "-f", "IN"),
}
CLAIMS = {
    "small": "d",
    "large": f"inference-service-with-a-long-name-{NODES - 1}",
    "demo": "training/quartet",
    "machines": "none",
    "exclusive": "none",
}
NODE = {"small": "n1", "large": LONG.format(7), "demo": "h100-0", "machines": "none", "exclusive": "node-1"}


def said(arguments: list[str], columns: str | None) -> tuple[str, str]:
    result = CliRunner().invoke(main, arguments, env={"COLUMNS": columns})
    assert result.exit_code in (0, 1, 2, 3), result.output
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.stdout, result.stderr


def assert_readable(narrow: str, unlimited: str) -> None:
    known = {word for word in unlimited.split() if not word.isupper()}  # a block has other headings
    longest = max(map(len, known), default=0)
    for line in narrow.splitlines():
        assert len(line) <= max(WIDTH, longest), line
        assert line == line.rstrip()
    assert known <= set(narrow.split())


@pytest.mark.parametrize("given", INPUTS)
@pytest.mark.parametrize("command", ASKED)
def test_everything_fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, given: str):
    monkeypatch.chdir(tmp_path)  # locations are short
    (tmp_path / "in.yaml").write_text(INPUTS[given]())
    path = str(MANIFESTS) if given == "demo" else "in.yaml"
    if given == "demo":
        (tmp_path / "demo").symlink_to(MANIFESTS)
        path = "demo"
    stand_ins = {"IN": path, "CLAIM": CLAIMS[given], "NODE": NODE[given]}
    arguments = [stand_ins.get(word, word) for word in ASKED[command]]
    for narrow, unlimited in zip(said(arguments, "80"), said(arguments, None), strict=True):
        assert_readable(narrow, unlimited)
        for line in unlimited.splitlines():
            assert line == line.rstrip()


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_help_fits(command: str):
    for line in said([command, "--help"], "80")[0].splitlines():
        assert len(line) <= WIDTH, line


@pytest.mark.loopback
def test_the_demonstration_ends_with_success_and_fits():
    done = CliRunner().invoke(main, ["demo"], env={"COLUMNS": str(WIDTH)})
    assert done.exit_code == 0, done.stderr
    # Watches are not in step: on a slow machine a claim may be freed before its pod is seen to have ended.
    assert all("taken back by kube-scheduler" in line for line in done.stderr.splitlines())
    assert "claims allocated" in done.stdout
    for line in done.stdout.splitlines():
        assert len(line) <= WIDTH, line
        assert line == line.rstrip()


@pytest.mark.parametrize("more", [(), ("--claim", "training/a-claim-with-a-long-name"), ("--slow", "1ms")])
def test_summaries_of_logs_fit(tmp_path: Path, more: tuple[str, ...]):
    allocated = {
        "timestamp": "2026-01-01T00:00:00.000Z",
        "level": "info",
        "logger": "reconciler.control",
        "event": "claim allocated",
        "claim": "training/a-claim-with-a-long-name",
        "devices": [f"gpu.example.com/{LONG.format(3)}/gpu-{at}" for at in range(8)],
        "node": LONG.format(3),
        "duration_ms": 12.5,
        "steps": 8,
        "decision_id": "d" * 16,
    }
    message = "request gpu: 4 of 65 devices match class and selectors; 1 is free; the request needs 2 devices"
    waits = {**allocated, "event": "claim pending", "reason": "DevicesInUse", "message": message}
    waits |= {"claims": ["training/b"], "nodes": 3}
    waits = {key: value for key, value in waits.items() if key not in ("claim", "devices", "node")}
    path = tmp_path / "run.log"
    path.write_text("".join(json.dumps(line) + "\n" for line in (allocated, waits)))
    arguments = ["logs", str(path), *more]
    assert_readable(said(arguments, "80")[0], said(arguments, None)[0])
