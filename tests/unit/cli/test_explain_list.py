"""`explain` without a name lists what waits, of manifests and of a cluster."""

import asyncio
import json
from datetime import UTC, datetime

import pytest
import yaml
from click.testing import CliRunner, Result

from reconciler.allocation.policies.selection import PLAIN
from reconciler.api.objects.semantics import Semantics
from reconciler.cli import explain_list, main
from reconciler.cli.connection import Connection
from reconciler.cli.explain_list import Line
from reconciler.cli.options import Clock
from reconciler.embedded import serve
from tests.tools.driving import ok
from tests.tools.patience import PATIENCE
from tests.tools.processes import answered, served
from tests.tools.short_manifests import CLASS, claim, gpus, node, pod, together

CREATED = "creationTimestamp: '2026-01-01T00:00:00Z'"
FLEET = together(
    CLASS,
    gpus("n1", 1),
    node("n1"),
    claim("fits"),
    claim("big", 4, metadata=f"labels: {{team: a}}, {CREATED}"),
    claim("unnamed", device_class="no-such"),
    claim("shared", 2),
    pod("user", "a=shared", spec="containers: [{name: main, image: main}]"),
    claim("other", 2).replace("{name: other, ", "{name: other, namespace: elsewhere, "),
)
AT = Clock(lambda: datetime(2026, 1, 1, 3, 12, tzinfo=UTC))


def listed(*arguments: str, manifests: str = FLEET) -> Result:
    files = ["-f", "-"] if manifests else []
    return CliRunner().invoke(main, ["explain", *arguments, *files], input=manifests, obj=AT)


def names(result: Result) -> set[str]:
    return {name for one in json.loads(result.stdout)["waiting"] for name in one["claims"]}


def test_a_line_for_each_pod_or_claim_that_waits():
    result = listed("-A")
    assert result.exit_code == 1
    rows = [line.split() for line in result.stdout.splitlines()]
    assert rows[0] == ["NAMESPACE", "CLAIM", "POD", "REASON", "AGE", "MISSING"]
    assert ["default", "unnamed", "-", "ClassNotFound", "-", "-"] in rows
    assert ["default", "shared", "user"] in [row[:3] for row in rows]
    (big,) = (row for row in rows if row[1] == "big")
    assert (big[4], big[5:]) == ("3h12m", ["gpu:", "1", "of", "4"])
    assert "fits" not in result.stdout


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["-A"], "big other shared unnamed"),
        ([], "big shared unnamed"),
        (["-n", "elsewhere"], "other"),
        (["-l", "team=a"], "big"),
        (["-A", "-l", "team notin (a)"], "other shared unnamed"),
        (["--reason", "ClassNotFound"], "unnamed"),
        (["-n", "nobody"], ""),
    ],
    ids=" ".join,
)
def test_what_is_listed_can_be_selected(options: list[str], expected: str):
    result = listed(*options, "-o", "json")
    assert names(result) == {*expected.split()}
    assert result.exit_code == bool(expected)


def test_names_are_those_of_kubectl():
    assert listed("-l", "team=a", "-o", "name").stdout == "resourceclaim.resource.k8s.io/big\n"


def test_nothing_that_waits_is_said():
    result = listed(manifests=together(CLASS, gpus("n1", 1), claim("fits")))
    assert result.exit_code == 0
    assert result.stdout == "nothing is pending in namespace default; -A looks in all\n"
    chosen = listed("-A", "--reason", "DevicesInUse", "-l", "team=b")
    assert chosen.exit_code == 0
    assert chosen.stdout == "nothing is pending for reason DevicesInUse with labels team=b\n"
    misspelt = listed("-A", "--reason", "devicesinus")
    assert misspelt.exit_code == 2
    unreadable = listed("-A", "-l", "team in")
    assert unreadable.exit_code == 2
    assert "'--selector': unable to parse requirement: 'team in'" in unreadable.stderr
    assert "did you mean DevicesInUse" in " ".join(misspelt.stderr.split())
    assert "--pod need a NAME" in listed("-A", "--pod").stderr


@pytest.mark.parametrize("target", ["claim/big", "resourceclaims.resource.k8s.io/big", "default/big", "big"])
def test_a_type_may_stand_before_the_name(target: str):
    assert listed(target).stdout.startswith("claim default/big: ")


def test_a_pod_is_named_by_its_type():
    assert listed("pod/user").stdout == listed("user", "--pod").stdout != ""


@pytest.mark.parametrize(
    "arguments", ["big -A", "big -l a=b", "big -o name", "-A -n x", "-w", "--pod", "a/b/c"]
)
def test_what_does_not_go_together_is_wrong_usage(arguments: str):
    result = listed(*arguments.split())
    assert (result.exit_code, "Error: " in result.stderr) == (2, True)


@pytest.mark.loopback
async def test_each_waits_on_a_cluster_as_if_it_came_next():
    result = await answered(served(FLEET), "explain", "-A", "-o", "json", obj=AT)
    assert names(result) == {"fits", "big", "unnamed", "shared", "other"}
    reasons = {one["claims"][0]: one["reason"] for one in json.loads(result.stdout)["waiting"]}
    assert reasons["fits"] == "Allocatable"
    assert reasons["unnamed"] == "ClassNotFound"


CPUS = """
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: cpus}
spec:
  driver: cpu.example.com
  nodeName: n1
  pool: {name: n1, generation: 1, resourceSliceCount: 1}
  devices:
  - name: all
    allowMultipleAllocations: true
    capacity: {cpus: {value: "8"}}
    nodeAllocatableResources: {cpu: {mapping: {capacityKey: cpus, capacityMultiplier: "1"}}}
"""
TAKES_FOUR = "containers: [{name: c, image: i, resources: {requests: {cpu: '4'}}}]"
SIX = "{deviceClassName: cpu, capacity: {requests: {cpus: '6'}}}"


@pytest.mark.loopback
async def test_what_devices_take_of_a_node_counts_on_a_cluster():
    """8 CPUs, 4 of a pod, 6 of a device."""
    text = together(
        CLASS.replace("name: gpu", "name: cpu").replace("gpu.example.com", "cpu.example.com"),
        CPUS,
        node("n1").replace("kind: Node", "kind: Node, status: {allocatable: {cpu: '8', pods: '9'}}"),
        claim("six").replace("{deviceClassName: gpu, count: 1}", SIX),
        pod("busy", spec=f"nodeName: n1, {TAKES_FOUR}"),
        pod("wants", "a=six", spec="containers: [{name: c, image: i, resources: {claims: [{name: a}]}}]"),
    )
    waits = await answered(served(text), "explain", "-o", "json", obj=AT)
    (line,) = json.loads(waits.stdout)["waiting"]
    one = await answered(served(text), "explain", "pod/wants")
    assert (line["pod"], line["reason"]) == ("wants", "NodeResourcesExceeded")
    assert (one.exit_code, "8 CPUs, 4 requested, 6 by devices" in one.stdout) == (1, True)


@pytest.mark.loopback
async def test_what_changes_is_shown_while_it_is_watched(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(explain_list, "WATCH_SECONDS", 0.0)
    api = served(together(CLASS, gpus("n1", 1), node("n1"), claim("big", 4)))
    shown: asyncio.Queue[list[str]] = asyncio.Queue()

    def show(lines: list[Line]) -> None:
        if lines:
            shown.put_nowait([f"{line.claims[0].name} {line.reason}" for line in lines])

    async with serve(api) as url:
        connection = Connection(True, url, None, None, False, True)
        watching = asyncio.create_task(explain_list.watch(connection, Semantics(), PLAIN, show))
        async with asyncio.timeout(PATIENCE):
            assert (await shown.get())[0].startswith("big ")
            api.load(
                [yaml.safe_load(claim("late").replace("{name: late, ", "{name: late, namespace: default, "))]
            )
            assert await shown.get() == ["late Allocatable"]
            ok(api, "DELETE", "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/late")
            assert await shown.get() == ["late NotPending"]
        watching.cancel()
        await asyncio.wait([watching])
