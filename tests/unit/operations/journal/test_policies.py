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
from reconciler.control.inputs import Answered, PoliciesUsed
from reconciler.operations.journal.entries import decode
from reconciler.operations.journal.files import lines, paths
from reconciler.operations.journal.replaying import replay
from tests.tools.naive_policies import GPUS
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
    written = [decode(line) for path in paths(tmp_path / "journal") for line in lines(path)]
    answers = [one.outcome for one in written if isinstance(one, Answered)]
    assert {one.policy for one in answers if not one.reason} == {"expected-fill"}
    (used,) = [one.policies for one in written if isinstance(one, PoliciesUsed)]
    assert used == Policies(parse_policies(["expected-fill"]), Demand((SHAPE,)), 5)
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
