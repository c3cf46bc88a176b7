"""Which nodes policies choose for a gang: compared with placing its members one after another, each alone."""

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.allocation.alignment.deciding import decide
from reconciler.allocation.dra.budget import UNLIMITED
from reconciler.allocation.gangs.deciding import decide_gang
from reconciler.allocation.gangs.kinds import GangGranted, GangUnsatisfied
from reconciler.allocation.placement.placing import Placement
from reconciler.allocation.policies.demand import Demand, Shape
from reconciler.allocation.policies.names import POLICIES, Weighing
from reconciler.allocation.policies.selection import Policies
from reconciler.api.objects.gangs import Tier
from reconciler.api.objects.plan import Granted
from reconciler.state.trial import Trial
from tests.tools.examples import examples
from tests.tools.gang_world import Asking, Device, GangWorld, Machine, Want

STEPS = 5_000


def policies_of(world: GangWorld, name: str, weighing: Weighing | None = None) -> Policies:
    """A policy that keeps room for what the members ask for, and twice as often for two devices of `a`."""
    specs = [world.question().members[0].claims[0].spec, _specs(Want("two", "a", 2))]
    demand = Demand(tuple(Shape(spec, 1000, weight) for weight, spec in enumerate(specs, 1)))
    return Policies((("*", name),), demand, preferences=weighing)


def _specs(want: Want) -> Any:
    pod = Asking("p", 1, (want,))
    return GangWorld((), (), (pod,), 1, ()).question().members[0].claims[0].spec


def one_after_another(world: GangWorld, trial: Trial, policies: Policies) -> dict[str, str]:
    """Pod -> node: each where the policy places it alone, beside those before it."""
    found = {}
    for member in world.question().members:
        snapshot, placement = trial.snapshot, Placement(trial.nodes, supposed=False)
        outcome = decide(
            member.claims,
            snapshot,
            nodes=placement.for_pod(member.pod, (), snapshot).nodes,
            policy=policies.of(member.claims, snapshot),
            pod=placement.room(member.pod, snapshot, policies),
        )
        if isinstance(outcome, Granted):
            found[member.pod.key.name] = outcome.node
            trial.place(outcome.plans, member.pod, outcome.node)
    return found


def seats(world: GangWorld, policies: Policies) -> dict[str, str] | None:
    """Pod -> node, as the gang is placed; None if it is refused."""
    with world.trial() as trial:
        question = dataclasses.replace(world.question(), policies=policies)
        outcome = decide_gang(question, trial, steps=STEPS, budget=UNLIMITED)
        if isinstance(outcome, GangUnsatisfied):
            return None
        return {seat.pod.name: seat.node for seat in outcome.seats}


def machine_of(name: str, kinds: str, cpu: int = 8, **fields: Any) -> Machine:
    devices = tuple(Device(f"d{at}", name, kind) for at, kind in enumerate(kinds))
    return Machine(name, fields.get("rack", "r0"), fields.get("block", "b0"), cpu, 0, devices)


def gang_of(size: int, devices: int = 1) -> tuple[Asking, ...]:
    return tuple(Asking(f"p{n}", 1, (Want(f"c{n}", "a", devices),)) for n in range(size))


@st.composite
def worlds(draw: st.DrawFn) -> GangWorld:
    """Nodes with whole devices of two kinds, and pods that are alike."""
    kinds = st.text("aab", min_size=1, max_size=5)
    machines = tuple(
        machine_of(f"n{at}", draw(kinds), draw(st.integers(1, 6))) for at in range(draw(st.integers(2, 5)))
    )
    size = draw(st.integers(2, 5))
    return GangWorld(machines, (), gang_of(size, draw(st.integers(1, 2))), draw(st.integers(1, size)), ())


@pytest.mark.parametrize("weighing", [Weighing.OFF, None])
@pytest.mark.parametrize("name", POLICIES)
@examples(10)
@given(world=worlds())
def test_members_get_the_nodes_that_each_would_get_alone_after_the_others(
    name: str, weighing: Weighing | None, world: GangWorld
):
    policies = policies_of(world, name, weighing)
    with world.trial() as trial:
        expected = one_after_another(world, trial, policies)
    found = seats(world, policies)
    assert found == (expected if len(expected) >= world.least else None)


@pytest.mark.parametrize(
    ("policy", "nodes"),
    [
        ("first-fit", ["n0", "n0", "n1"]),
        ("best-fit", ["n1", "n0", "n0"]),
        ("spread", ["n2", "n0", "n2"]),
        ("least-loss", ["n1", "n2", "n0"]),
    ],
)
def test_a_policy_orders_the_nodes_of_a_domain(policy: str, nodes: list[str]):
    machines = (machine_of("n0", "aa"), machine_of("n1", "a"), machine_of("n2", "aaa"))
    world = GangWorld(machines, (), gang_of(3), 3, ())
    assert seats(world, policies_of(world, policy)) == dict(zip(["p0", "p1", "p2"], nodes, strict=True))


@pytest.mark.parametrize("policy", POLICIES)
def test_the_smallest_domain_counts_more_than_a_policy(policy: str):
    """`spread` would take the large rack, and the tightest fit is a node in it, too."""
    large = [machine_of(f"n{at}", "a" * count, rack="r1") for at, count in enumerate((1, 1, 5))]
    small = [machine_of(f"m{at}", "aa", rack="r0") for at in range(2)]
    world = GangWorld((*large, *small), (), gang_of(2), 2, (Tier("rack", required=True),))
    found = seats(world, policies_of(world, policy))
    assert found is not None
    assert all(node.startswith("m") for node in found.values())


@pytest.mark.parametrize("policy", POLICIES)
def test_a_tier_that_is_not_met_still_groups_members(policy: str):
    """No rack holds all three: the one that holds most is filled first, whatever the policy prefers."""
    racks = [machine_of("n0", "a", rack="r0"), *(machine_of(f"n{at}", "a", rack="r1") for at in (1, 2))]
    world = GangWorld(tuple(racks), (), gang_of(3), 3, (Tier("rack", required=False),))
    found = seats(world, policies_of(world, policy))
    assert found is not None
    assert found["p2"] == "n0"


def test_preferences_of_pods_order_the_nodes_of_a_gang():
    """Each member sees the others where they are: preferred anti-affinity keeps them apart."""
    machines = tuple(machine_of(f"n{at}", "aa") for at in range(3))
    world = GangWorld(machines, (), gang_of(3), 3, ())
    members = world.question().members
    term = {"labelSelector": {"matchLabels": {"gang": "g"}}, "topologyKey": "kubernetes.io/hostname"}
    apart = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}]}
    pods = [one.pod.model_dump(by_alias=True, exclude_none=True) for one in members]
    for pod in pods:
        pod["spec"]["affinity"] = {"podAntiAffinity": apart}
    alike = tuple(
        replace(one, pod=type(one.pod).model_validate(pod)) for one, pod in zip(members, pods, strict=True)
    )
    for weighing, expected in ((Weighing.FIRST, {"n0", "n1", "n2"}), (Weighing.OFF, {"n0", "n1"})):
        policies = Policies((("*", "first-fit"),), preferences=weighing)
        question = dataclasses.replace(world.question(), members=alike, policies=policies)
        with world.trial() as trial:
            outcome = decide_gang(question, trial, steps=STEPS, budget=UNLIMITED)
        assert isinstance(outcome, GangGranted)
        assert {seat.node for seat in outcome.seats} == expected
