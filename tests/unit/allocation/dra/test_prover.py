"""Proofs against searches that try everything, on questions that are hard for their size (SRCH-13)."""

import tracemalloc
from collections.abc import Callable
from random import Random

import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from msgspec.structs import replace

from perf.fleets.hard import Scale, question, questions
from reconciler.allocation.dra import branches, node_attempt, proof_tables, prover, search
from reconciler.allocation.dra.branches import remaining
from reconciler.allocation.dra.candidates import find_candidates
from reconciler.allocation.dra.node_attempt import NodeGrant
from reconciler.allocation.dra.prover import MOST_WORK, Prover
from reconciler.allocation.dra.state import begin, set_up
from reconciler.api.objects.plan import Granted
from tests.tools.allocation_strategies import hard_worlds
from tests.tools.allocation_world import World, answer, decide, on_node, spelled
from tests.tools.builders import (
    DRIVER,
    Object,
    claim,
    counter_slice,
    device,
    device_class,
    first_of,
    match,
    node,
    request,
    resource_slice,
    selectors,
    wants,
)
from tests.tools.examples import examples
from tests.tools.hard_twin import world_of


def first_proof(world: World, most_work: int = MOST_WORK) -> tuple[Prover, bool | None]:
    """Whether all claims are proved impossible on the first node, and the prover."""
    seen = world.snapshot()
    parsed, view = world.parsed(seen), seen.topology.view(world.nodes[0]["metadata"]["name"])
    by_slot = [[find_candidates(option, view, seen) for option in slot.options] for slot in parsed.slots]
    problem = set_up(parsed, view, seen)
    state = begin(problem, problem.constraints[0])
    prover = Prover(problem, most_work)
    return prover, prover.is_impossible(parsed.slots, remaining(problem, parsed.slots, by_slot, state), state)


@examples(150)
@given(hard_worlds(), st.sampled_from((3, 5, 32)))
def test_proofs_change_no_answer(world: World, most: int):
    """Whatever a claim may hold at most (SRCH-6)."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (branches, node_attempt, proof_tables, prover, search):
            patch.setattr(module, "MAX_RESULTS", most)
        plain = on_node(world, "n0", pruned=False, steps=20_000)
        if getattr(plain, "reason", None) != "SearchGaveUp":
            event("granted" if isinstance(plain, NodeGrant) else "refused")
            assert answer(on_node(world, "n0")) == answer(plain)


@examples(150)
@given(hard_worlds())
def test_what_is_not_proved_impossible_can_be_met(world: World):
    """Everything counts in these questions: neither exclusion nor shares."""
    _, proved = first_proof(world)
    assert (proved is True) == (not isinstance(on_node(world, "n0"), NodeGrant))


def test_a_box_of_two_kinds_and_a_limit_is_not_that_of_three_kinds():
    """Both have the caps 1, 3 and 1 here. With a request for an administrator, no first way is tried."""

    def part(name: str, model: str, numa: int, gpu: int, **draws: int) -> Object:
        drawn = {"g": draws} if draws else None
        return device(name, {"model": model, "numa": numa, "gpu": gpu}, draws=drawn)

    content = [
        part("A", "c", 1, 0, x=1, z=2),
        part("B", "c", 0, 0, x=1),
        part("C", "c", 1, 0, y=2, z=1),
        part("D", "a", 0, 0),
        part("E", "a", 0, 2),
    ]
    slices = [
        resource_slice("s", content, slices=2, nodeName="n0"),
        counter_slice("c", {"g": {"x": 2, "y": 3, "z": 3}}, slices=2, nodeName="n0"),
    ]
    first = request("r0", selectors=selectors(f'device.attributes["{DRIVER}"].numa == 0'))
    near = [match(f"{DRIVER}/model", "r1", "r2"), match(f"{DRIVER}/gpu", "r0", "r1", "r2")]
    claims = [
        claim("c0", first, request("r1"), request("r2", 2), constraints=near),
        claim("c1", request("r0")),
        claim("c2", request("r0", adminAccess=True)),
    ]
    world = World(slices, claims, [], [device_class()], [node("n0")])
    assert spelled(on_node(world, "n0")) == ["r0=D r1=A r2=B r2=C", "r0=E", "r0=D"]
    assert answer(on_node(world, "n0")) == answer(on_node(world, "n0", pruned=False))


@pytest.mark.parametrize("columns", [0, 1])
def test_devices_that_draw_nothing_are_counted(columns: int):
    """The columns of sets may outlast the last device that draws from one."""
    slices = [resource_slice("s", [device("A"), device("B")], nodeName="n0")]
    wanted = [request(f"r{at}") for at in range(3)]
    world = World(slices, [claim("c", *wanted)], [], [device_class()], [node("n0")])
    seen = world.snapshot()
    parsed, view = world.parsed(seen), seen.topology.view("n0")
    by_slot = [[find_candidates(option, view, seen) for option in slot.options] for slot in parsed.slots]
    none = np.full((2, columns), -1, dtype=np.int32)
    problem = replace(set_up(parsed, view, seen), sets=none, draws=none)
    state = begin(problem, problem.constraints[0])
    left = remaining(problem, parsed.slots, by_slot, state)
    assert Prover(problem).is_impossible(parsed.slots, left, state)


NUMBER = f"device.attributes['{DRIVER}'].number"


def many_counts() -> World:
    """Alternatives ask for 4,096 counts of 54 kinds."""
    content = [device(f"d{at}", {"number": at}) for at in range(600)]
    slices = [
        resource_slice(f"s{at}", content[at : at + 100], nodeName="n0", slices=6) for at in range(0, 600, 100)
    ]

    def some(least: int, count: int = 1) -> Object:
        return wants(count, selectors=selectors(f"{NUMBER} > {least}"))

    alternatives = [first_of(f"r{at}", a=some(5 * at), b=some(100 + 6 * at, 2)) for at in range(12)]
    others = [request(f"q{at}", selectors=selectors(f"{NUMBER} < {600 - at}")) for at in range(30)]
    claims = [claim("c", *alternatives), claim("d", *others)]
    return World(slices, claims, [], [device_class()], [node("n0")])


def many_packings() -> World:
    """Each of 6 GPUs can give 1,900 different sets of partitions."""
    gpus, kinds, fit = 6, 16, 4
    parts: list[Object] = []
    for gpu in range(gpus):
        content = [
            device(f"d{gpu}-{at}", {"number": at}, draws={f"g{gpu}": {"x": 1}})
            for at in range(kinds)
            if at != gpu
        ]
        parts.append(resource_slice(f"s{gpu}", content, nodeName="n0", slices=2 * gpus))
        parts.append(counter_slice(f"c{gpu}", {f"g{gpu}": {"x": fit}}, nodeName="n0", slices=2 * gpus))
    asked = [
        request(f"r{at}", selectors=selectors(f"{NUMBER} in [{at}, {(5 * at + 1) % kinds}]"))
        for at in range(kinds)
    ]
    return World(parts, [claim("c", *asked)], [], [device_class()], [node("n0")])


def many_groups() -> World:
    """3,000 devices that differ, and a million counts of 6 kinds."""
    content = [device(f"d{at}", {"number": at}) for at in range(3000)]
    slices = [
        resource_slice(f"s{at}", content[at : at + 100], nodeName="n0", slices=30)
        for at in range(0, 3000, 100)
    ]
    asked = [request(f"r{at}", 9, selectors=selectors(f"{NUMBER} / {2**at} % 2 == 1")) for at in range(6)]
    return World(slices, [claim("c", *asked[:3]), claim("d", *asked[3:])], [], [device_class()], [node("n0")])


def many_limits() -> World:
    """2,000 devices, a thousand values that pairs of them share, and a device of each value at most."""
    content = [device(f"d{at}", {"number": at, "pair": at // 2}) for at in range(2000)]
    slices = [
        resource_slice(f"s{at}", content[at : at + 100], nodeName="n0", slices=20)
        for at in range(0, 2000, 100)
    ]
    asked = [request(f"r{at}", 9, selectors=selectors(f"{NUMBER} / {2**at} % 2 == 1")) for at in range(3)]
    constraints = [{"distinctAttribute": f"{DRIVER}/pair"}]
    wanted = claim("c", *asked, constraints=constraints)
    return World(slices, [wanted], [], [device_class()], [node("n0")])


@pytest.mark.parametrize(
    ("made", "part"), [(many_counts, 16), (many_packings, 64), (many_groups, 4), (many_limits, 16)]
)
def test_one_proof_has_a_bound_on_its_work_and_its_memory(made: Callable[[], World], part: int):
    world = made()
    tracemalloc.start()
    try:
        prover, _ = first_proof(world, MOST_WORK // part)
        assert tracemalloc.get_traced_memory()[1] < 200 << 20
    finally:
        tracemalloc.stop()
    assert prover.work < 2 * MOST_WORK // part


@pytest.mark.parametrize("names", ["x", "xy"])
def test_amounts_of_several_sets_may_be_more_than_64_bits_hold(names: str):
    """Each set may have up to 2**63, and sums of sets are compared."""
    sets = {f"g{at}": dict.fromkeys(names, 6 * 10**18) for at in range(2)}
    content = [device(f"d{at}", {"number": at}, draws={f"g{at}": dict.fromkeys(names, 1)}) for at in range(2)]
    slices = [
        resource_slice("s", content, nodeName="n0", slices=2),
        counter_slice("c", sets, nodeName="n0", slices=2),
    ]
    asked = [request("r0"), request("r1", selectors=selectors(f"{NUMBER} == 0"))]
    world = World(slices, [claim("c", *asked)], [], [device_class()], [node("n0")])
    assert isinstance(on_node(world, "n0"), NodeGrant)


def test_a_search_is_not_given_up_because_its_first_proofs_are_large():
    """Here they take a twentieth of the work that a search may do; with a sixtieth it gives up."""
    scale = Scale(gpus=(4, 8, 8, 16, 16, 32), nodes=(2, 3, 5), mixed=True)
    asked = question(Random(5001960), "mixed", scale, 0.5)
    assert isinstance(decide(world_of(asked), nodes=["n4"], steps=10_000), Granted)


def test_alternatives_that_lack_the_same_are_excluded_together():
    """267 choices of alternatives pass all simple sums. Each alone takes ten milliseconds without weights."""
    *_, asked = questions(31, 22, Scale(), 0.0, ["mixed"])
    prover, proved = first_proof(world_of(asked))
    assert proved
    assert prover.work < MOST_WORK >> 6


RECORDED = (
    "1011100111111011100101010000111110011101000010000100100000010000011000001101000000000101000000000100"
)
"""Whether devices exist, as CP-SAT says: fifty questions on empty nodes, fifty with held GPUs"""


@pytest.mark.parametrize("part", range(2))
def test_answers_are_those_of_a_solver(part: int):
    scale = Scale(gpus=(4, 8))
    asked = [*questions(2026, 50, scale, 0.0), *questions(2027, 50, scale, 0.5)][part::2]
    found = "".join(str(int(isinstance(decide(world_of(one), steps=10_000), Granted))) for one in asked)
    assert found == RECORDED[part::2]
