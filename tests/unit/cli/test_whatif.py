"""`dra-reconciler whatif`: output for manifests and for a cluster; it writes nothing."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from reconciler.cli import main
from reconciler.embedded import serve
from tests.tools import small_fleet
from tests.tools.gangs import pod_group
from tests.tools.koordinator_builders import gpu
from tests.tools.koordinator_cluster import machine
from tests.tools.processes import Overheard
from tests.tools.short_manifests import CLASS, claim, gpus, node, pod, template, together

FLEET = together(CLASS, gpus("n1", 2), gpus("n2", 1))


def holding(name: str, on: str, *devices: str) -> str:
    made = small_fleet.claim(name)
    return yaml.safe_dump({**made, "status": small_fleet.held("gpu.example.com", on, *devices, on=on)})


@pytest.fixture
def say(tmp_path: Path) -> Callable[..., Result]:
    """Runs the command on manifests, each text a file."""

    def run(asked: str, *arguments: str, world: str = FLEET, **files: str) -> Result:
        named = {"asked": asked, "world": world, **files}
        for name, text in named.items():
            (tmp_path / f"{name}.yaml").write_text(text)
        texts = [f"{tmp_path / arg[1:]}.yaml" if arg[:1] == "@" else arg for arg in arguments]
        first = ["-f", str(tmp_path / "asked.yaml")] if asked else []
        rest = ["-f", str(tmp_path / "world.yaml")] if world else []
        return CliRunner().invoke(main, ["whatif", *first, *rest, *texts])

    return run


def test_without_a_count_copies_are_placed_until_one_does_not_fit(say):
    result = say(claim("c"))
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == "fits 3 times: claim default/c"
    assert lines[1].startswith("copy 4 does not fit: claim default/c: DevicesInUse: ")
    assert [line.split() for line in lines[3:]] == [
        ["COPY", "CLAIM", "REQUEST", "DEVICE", "NODE"],
        ["1", "default/c", "gpu", "gpu.example.com/n1/gpu-0", "n1"],
        ["2", "default/c", "gpu", "gpu.example.com/n1/gpu-1", "n1"],
        ["3", "default/c", "gpu", "gpu.example.com/n2/gpu-0", "n2"],
    ]


@pytest.mark.parametrize(
    ("count", "code", "line"),
    [
        ("1", 0, "fits: claim default/c"),
        ("3", 0, "fits 3 times: claim default/c"),
        ("4", 1, "does not fit: 3 of 4 copies: claim default/c"),
    ],
)
def test_copies_are_counted(say, count: str, code: int, line: str):
    result = say(claim("c"), "--count", count)
    assert (result.exit_code, result.stdout.splitlines()[0]) == (code, line)


def test_a_claim_that_does_not_fit_has_a_reason(say):
    result = say(claim("c", 3))
    assert result.exit_code == 1
    assert result.stdout.splitlines()[0] == "does not fit: claim default/c"
    assert "the request needs 3 devices" in result.stdout


def test_devices_can_be_added(say):
    result = say(claim("c", 3), "--add", "@more", more=gpus("n3", 3))
    assert (result.exit_code, "n3" in result.stdout) == (0, True)


_CLASS = yaml.safe_load(CLASS)
SERVED = yaml.safe_dump({**_CLASS, "spec": {**_CLASS["spec"], "extendedResourceName": "nvidia.com/gpu"}})


def asking(name: str, resource: str = "nvidia.com/gpu", **spec: Any) -> str:
    """A pod that asks for an extended resource, which is also one of Koordinator's."""
    container = {"name": "c", "image": "i", "resources": {"limits": {resource: "2"}}}
    made = small_fleet.pod(name, **spec)
    return yaml.safe_dump({**made, "spec": {**made["spec"], "containers": [container]}})


def test_a_class_serves_the_extended_resources_of_pods(say):
    world = together(SERVED, gpus("n1", 2), gpus("n2", 3))
    result = say(asking("p"), "--count", "2", world=world)
    assert result.exit_code == 0, result.output
    assert [line.split() for line in result.stdout.splitlines()[2:]][1:] == [
        ["1", "default/p-extended-resources", "container-0-request-0", "gpu.example.com/n1/gpu-0", "n1"],
        ["1", "default/p-extended-resources", "container-0-request-0", "gpu.example.com/n1/gpu-1", "n1"],
        ["2", "default/p-extended-resources", "container-0-request-0", "gpu.example.com/n2/gpu-0", "n2"],
        ["2", "default/p-extended-resources", "container-0-request-0", "gpu.example.com/n2/gpu-1", "n2"],
    ]
    result = say(asking("p"), "--count", "3", world=world)
    assert (result.exit_code, "copy 3 does not fit: pod default/p: DevicesInUse" in result.stdout) == (
        1,
        True,
    )


def test_extended_resources_that_no_claim_is_made_for_are_refused_with_the_reason(say):
    world = together(SERVED, gpus("n1", 2))
    result = say(asking("p"), "--feature-gates", "DRAExtendedResource=false", world=world)
    assert result.exit_code == 2
    assert (
        "makes no claim for nvidia.com/gpu while the feature gate DRAExtendedResource is off" in result.stderr
    )
    for resource in ("deviceclass.resource.kubernetes.io/gpu", "nvidia.com/gpu"):
        named = asking("p", resource, schedulingGroup={"podGroupName": "g"})
        result = say(together(yaml.safe_dump(pod_group("g", 1)), named), world=world)
        assert (result.exit_code, "ExtendedResourcesUnsafe" in result.stdout) == (1, True), result.output


def test_pods_whose_extended_resources_nothing_serves_fit_nowhere_and_are_left_out(say):
    world = together(SERVED, gpus("n1", 2))
    other = asking("p", "vendor.example.com/fpga")
    result = say(other, world=world)
    assert result.exit_code == 2
    assert "no DeviceClass serves the extended resources of pod default/p" in result.stderr
    result = say(together(other, claim("c", 1)), "-o", "json", world=world)
    assert {one["unit"] for one in json.loads(result.stdout)["placed"]} == {"claim default/c"}


def test_a_class_serves_its_resources_beside_the_devices_of_plugins(say):
    """Only what a plugin has devices for is left to it."""
    world = together(SERVED, gpus("n1", 2), yaml.safe_dump(machine("n2", gpu(0))))
    result = say(asking("p", "deviceclass.resource.kubernetes.io/gpu"), "-o", "json", world=world)
    found = json.loads(result.stdout)
    assert [one["node"] for one in found["placed"]] == ["n1"]
    assert [len(one["devices"]) for one in found["placed"]] == [2]
    result = say(asking("q"), "--count", "1", "-o", "json", world=world)
    assert (result.exit_code, json.loads(result.stdout)["placed"]) == (1, [])  # n2 has one GPU
    named = asking("q", schedulingGroup={"podGroupName": "g"})
    result = say(together(yaml.safe_dump(pod_group("g", 1)), named), world=world)
    assert (result.exit_code, "gangs may use ResourceClaims only" in result.stderr) == (2, True), (
        result.output
    )


def test_claims_can_be_assumed_free(say):
    world = together(FLEET, holding("old", "n1", "gpu-0"))
    assert say(claim("c", 2), world=world).exit_code == 1
    result = say(claim("c", 2), "--without", "old", world=world)
    assert (result.exit_code, result.stdout.splitlines()[-1]) == (0, "assumed free: default/old")
    other = say(claim("c"), "--without", "old", "-n", "other", world=world)
    assert (other.exit_code, other.stderr) == (
        2, "Error: there is no claim other/old; did you mean default/old?\n",
    )  # fmt: skip


def test_lost_claims_of_a_drained_node_are_listed(say):
    world = together(FLEET, holding("one", "n1", "gpu-0"), holding("two", "n1", "gpu-1"))
    result = say("", "--drain", "n1", world=world)
    assert result.exit_code == 1
    assert result.stdout.splitlines()[0] == "lost: 2 claims; 1 cannot be allocated elsewhere"
    assert "gpu.example.com/n2/gpu-0 on n2" in result.stdout
    assert "nowhere: DevicesInUse" in result.stdout
    assert say("", "--drain", "n2", world=world).stdout == "lost: 0 claims; 0 cannot be allocated elsewhere\n"


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_json_and_yaml_contain_everything(say, output: str):
    world = together(FLEET, holding("old", "n1", "gpu-0"))
    result = say(claim("c"), "--drain", "n1", "-o", output, world=world)
    told = json.loads(result.stdout) if output == "json" else yaml.safe_load(result.stdout)
    assert result.exit_code == 1
    answer: small_fleet.Object = {
        "fits": False,
        "copies": 0,
        "copiesAsked": None,
        "limit": "full",
        "freed": [],
    }
    assert {key: told[key] for key in answer} == answer
    (lost,) = told["lost"]
    assert (lost["claims"], lost["pod"], lost["refused"]) == (["default/old"], None, None)
    assert lost["elsewhere"]["devices"] == [
        {"claim": "default/old", "request": "r", "driver": "gpu.example.com", "pool": "n2", "device": "gpu-0"}
    ]
    assert told["refused"]["reason"] == "DevicesInUse"


def test_pods_and_templates_are_placed(say):
    asked = together(template("t", 2), pod("p", "a:t"))
    result = say(asked)
    assert (result.exit_code, result.stdout.splitlines()[0]) == (0, "fits once: pod default/p")


def test_other_pending_claims_are_ignored(say):
    assert say(claim("c"), world=together(FLEET, claim("waits", 2))).stdout.startswith("fits 3 times")


@pytest.mark.parametrize(
    ("asked", "world", "arguments", "message"),
    [
        ("", "", [], "Nothing to analyze: name manifests with -f"),
        (claim("c"), "", [], "No ResourceSlice or Device was read"),
        (node("x"), FLEET, [], "has no pending claim"),
        ("", FLEET, ["--drain", "nowhere"], "there is no node nowhere"),
        (pod("p", "a=c"), FLEET, [], "claim default/c is missing; add it"),
        (claim("c"), FLEET, ["--count", "0"], "0 is not in the range"),
        (together(claim("c"), claim("d", -1)), FLEET, [], "are invalid; fix them"),
    ],
)
def test_wrong_usage_has_its_own_exit_code(say, asked: str, world: str, arguments: list[str], message: str):
    result = say(asked, *arguments, world=world)
    assert (result.exit_code, message in result.stderr) == (2, True)


# -- a cluster


@pytest.mark.loopback
async def test_a_cluster_is_only_read(say):
    api = Overheard()
    api.load([*yaml.safe_load_all(together(FLEET, node("n1"), node("n2"), holding("old", "n1", "gpu-0")))])
    async with serve(api) as url:

        async def ask(*arguments: str, **files: str) -> Result:
            return await asyncio.to_thread(
                lambda: say(claim("c"), *arguments, "--server", url, world="", **files)
            )

        plain = await ask()
        freed = await ask("--without", "default/old")
        drained = await ask("--drain", "n1")
        added = await ask("--add", "@more", more=gpus("n3", 4))
        alone = await asyncio.to_thread(say, "", "--drain", "n1", "--server", url, world="")
    verdicts = [one.stdout.splitlines()[0] for one in (plain, freed, drained, added, alone)]
    assert verdicts == [
        "fits 2 times: claim default/c",
        "fits 3 times: claim default/c",
        "does not fit: claim default/c",
        "fits 6 times: claim default/c",
        "lost: 1 claim; 0 cannot be allocated elsewhere",
    ]
    assert [one.exit_code for one in (plain, freed, drained, added, alone)] == [0, 0, 1, 0, 0]
    assert set(api.methods) == {"GET"}
