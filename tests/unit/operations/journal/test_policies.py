"""The journal names the placement policy of each decision, and replay decides by it or by another."""

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from reconciler.allocation.policies.demand import Demand, Shape
from reconciler.allocation.policies.selection import Policies, parse_policies
from reconciler.api.objects.claims import ResourceClaimSpec
from reconciler.cli import main
from reconciler.control.decisions.allocating import Allocated
from reconciler.operations.journal.files import entries, paths
from reconciler.operations.journal.policies import RecordedPolicies, RoomWriter, write_policies
from reconciler.operations.journal.replaying import replay
from tests.tools.policy_scenarios import GPUS
from tests.tools.running_reconciler import Cluster, reconciling
from tests.tools.scenario import asking
from tests.tools.small_fleet import claim, claim_spec

SHAPE = Shape(ResourceClaimSpec.model_validate(claim_spec(2)), 500, 7, 3)


async def test_decisions_name_their_policy_in_journal_and_log(tmp_path: Path):
    demand = tmp_path / "demand.json"
    demand.write_text(Demand((SHAPE,)).to_json())
    cluster = Cluster([*GPUS, claim("c"), claim("d"), asking("p", "d", cpu="1")])
    flags: dict[str, Any] = {"policy": ["expected-fill"], "policy_seed": 5, "demand": demand}
    async with reconciling(cluster, journal=str(tmp_path / "journal"), **flags) as running:
        await running.heard(Allocated, 2)
    assert {one.policy for one in running.of(Allocated)} == {"expected-fill"}
    written = [raw for path in paths(tmp_path / "journal") for raw in entries(path)]
    used = [raw["policy"] for raw in written if raw["t"] == "decided" and not raw["reason"]]
    digest = Demand((SHAPE,)).digest
    told = {"name": "expected-fill", "seed": 5, "demand": digest}
    assert used
    for one in used:
        assert one | told == one
    assert {one["cores"] for one in used} == {None, 1000}
    (room,) = [raw["free"] for raw in written if raw["t"] == "room" and raw["free"]]
    assert room == {"a": 4000, "b": 4000}
    assert replay(tmp_path / "journal").different == []


async def test_replay_compares_with_another_policy(tmp_path: Path):
    cluster = Cluster([*GPUS, claim("c")])
    async with reconciling(cluster, journal=str(tmp_path), policy=["best-fit"]) as running:
        await running.heard(Allocated, 1)
    assert replay(tmp_path).different == []
    result = CliRunner().invoke(main, ["replay", str(tmp_path), "--policy", "first-fit", "-o", "json"])
    assert result.exit_code == 1
    (different,) = json.loads(result.stdout)["different"]
    assert (different["then"]["node"], different["now"]["node"]) == ("b", "a")


def test_policies_are_read_as_they_are_written():
    policies = Policies(parse_policies(["least-loss", "class:a=spread"]), Demand((SHAPE,)), 3)
    known = RecordedPolicies()
    known.take(json.loads(json.dumps(write_policies(policies))))
    assert known.of(policies.demand.digest) == policies
    assert known.of(None).first_fit


def test_only_nodes_whose_cpu_changed_are_written():
    rooms = RoomWriter()
    assert rooms.entry({"a": 1, "b": 2}) == {"t": "room", "free": {"a": 1, "b": 2}}
    assert rooms.entry({"a": 1, "b": 2}) is None
    assert rooms.entry({"a": 1, "b": 3}) == {"t": "room", "free": {"b": 3}}
    assert rooms.whole() == {"t": "room", "free": {"a": 1, "b": 3}}
