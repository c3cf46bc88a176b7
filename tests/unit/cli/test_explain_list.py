"""`explain` without a name lists what waits, of manifests and of a cluster."""

import asyncio
import json
from datetime import UTC, datetime

import pytest
import yaml
from click.testing import CliRunner, Result

from reconciler.cli import main
from reconciler.cli.options import Clock
from reconciler.embedded import ApiServer, serve
from tests.tools.short_manifests import CLASS, claim, gpus, node, pod, together

CREATED = "creationTimestamp: '2026-01-01T00:00:00Z'"
FLEET = together(
    CLASS,
    gpus("n1", 1),
    node("n1"),
    claim("fits"),
    claim("big", 4, metadata=f"labels: {{team: a}}, {CREATED}"),
    claim("unnamed").replace("deviceClassName: gpu", "deviceClassName: no-such"),
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
    assert (result.exit_code, result.stdout) == (
        0,
        "nothing is waiting in namespace default; -A looks in all\n",
    )


@pytest.mark.parametrize("target", ["claim/big", "resourceclaims.resource.k8s.io/big", "default/big", "big"])
def test_a_type_may_stand_before_the_name(target: str):
    assert listed(target).stdout.startswith("claim default/big: ")


def test_a_pod_is_named_by_its_type():
    assert listed("pod/user").stdout == listed("user", "--pod").stdout != ""


@pytest.mark.parametrize(
    "arguments",
    ["big -A", "big -l a=b", "big -o name", "-A -n x", "-w", "--pod", "a/b/c"],
)
def test_what_does_not_go_together_is_wrong_usage(arguments: str):
    result = listed(*arguments.split())
    assert (result.exit_code, "Error: " in result.stderr) == (2, True)


@pytest.mark.loopback
async def test_each_waits_on_a_cluster_as_if_it_came_next():
    api = ApiServer()
    for raw in yaml.safe_load_all(FLEET):
        namespaced = raw["kind"] in ("ResourceClaim", "Pod")
        metadata = {"namespace": "default", **raw["metadata"]} if namespaced else raw["metadata"]
        api.load([{**raw, "metadata": metadata}])
    async with serve(api) as url:
        result = await asyncio.to_thread(listed, "-A", "-o", "json", "--server", url, manifests="")
    assert names(result) == {"fits", "big", "unnamed", "shared", "other"}
    reasons = {one["claims"][0]: one["reason"] for one in json.loads(result.stdout)["waiting"]}
    assert reasons["fits"] == "Allocatable"
    assert reasons["unnamed"] == "ClassNotFound"
