"""`dra-reconciler release-gates`: our gate goes, everything else of a pod stays."""

from typing import Any

import pytest
from click.testing import CliRunner, Result

from reconciler.api.objects.core import GATE
from reconciler.api.validation.served_kinds import POD
from reconciler.cli import main
from reconciler.embedded import ApiServer, Request, Response
from reconciler.embedded.routing import Stream
from tests.tools.output_schemas import fitting
from tests.tools.processes import answered
from tests.tools.running_reconciler import Cluster
from tests.tools.small_fleet import node, pod

pytestmark = pytest.mark.loopback


class Interfering(ApiServer):
    """Somebody else changes a pod just before each of the first writes; some pods refuse all writes."""

    def __init__(self) -> None:
        super().__init__()
        self.changes = 0
        self.gone = ""

    def handle(self, request: Request) -> Response | Stream:
        name = request.path.rpartition("/")[2]
        if request.method == "PATCH":
            if name == "refuses":
                return Response(403, b'{"kind": "Status", "message": "pods is forbidden"}')
            if name == self.gone:
                self.delete(POD, "default", name)
            elif self.changes:
                self.changes -= 1
                self.update(POD, "default", name, self._relabelled)
        return super().handle(request)

    def _relabelled(self, shown: Any) -> Any:
        return {**shown, "metadata": {**shown["metadata"], "labels": {"change": str(self.changes)}}}


def cluster(api: ApiServer | None = None) -> Cluster:
    found = Cluster([node("a")])
    if api is not None:
        found.api = api
        found.load(node("a"))
    both = pod("both", gates=(GATE, "example.com/other"))
    elsewhere = pod("elsewhere")
    elsewhere["metadata"]["namespace"] = "other"
    found.load(pod("one"), both, pod("free", gates=()), elsewhere)
    return found


async def run(found: Cluster, *arguments: str) -> Result:
    return await answered(found.api, "release-gates", *arguments)


def gates(found: Cluster, name: str) -> list[str]:
    return [gate["name"] for gate in found.pod(name)["spec"].get("schedulingGates") or ()]


async def test_only_our_gate_is_removed_and_only_in_the_namespace():
    found = cluster()
    result = await run(found)
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == [
        "NAMESPACE  POD   GATE",
        "default    both  removed",
        "default    one   removed",
        "",
        "2 gates removed",
    ]
    assert "kube-scheduler now schedules these pods" in result.stderr
    assert gates(found, "one") == []
    assert gates(found, "both") == ["example.com/other"]
    again = await run(found, "-A", "-o", "name")
    assert again.stdout == "pod/elsewhere\n"
    last = await run(found)
    assert last.stdout == f"no pod has the gate {GATE} in namespace default; -A looks in all\n"


async def test_a_dry_run_changes_nothing():
    found = cluster()
    result = await run(found, "-A", "--dry-run", "-o", "json")
    pods = [
        (one["namespace"], one["name"], one["problem"])
        for one in fitting("release-gates", result.stdout)["pods"]
    ]
    assert pods == [("default", "both", None), ("default", "one", None), ("other", "elsewhere", None)]
    assert gates(found, "one") == [GATE]
    assert "would be removed" in (await run(found, "--dry-run")).stdout


async def test_a_pod_that_others_change_is_read_again_and_one_that_is_gone_is_no_problem():
    api = Interfering()
    found = cluster(api)
    api.changes = 2
    result = await run(found)
    assert result.exit_code == 0, result.output
    assert gates(found, "one") == gates(found, "free") == []
    found.load(pod("leaves"))
    api.gone = "leaves"
    result = await run(found)
    assert result.exit_code == 0, result.output
    found.load(pod("busy"))
    api.changes = 100
    result = await run(found)
    assert result.exit_code == 1
    assert "Error: pod default/busy: others changed it 5 times; try again" in result.stderr


async def test_one_refusal_does_not_stop_the_others():
    api = Interfering()
    found = cluster(api)
    found.load(pod("refuses"))
    result = await run(found)
    assert result.exit_code == 1
    assert "Error: pod default/refuses: " in result.stderr
    assert "default    refuses  stays" in result.stdout
    assert result.stdout.endswith("2 gates removed\n")
    assert gates(found, "one") == []


def test_a_namespace_and_all_of_them_are_not_both():
    result = CliRunner().invoke(main, ["release-gates", "-A", "-n", "x"])
    assert result.exit_code == 2
