"""Problems that a search without bounds does not finish. The tests count tried devices, never time."""

from collections.abc import Iterable
from typing import Any

import pytest

from reconciler.allocation.dra.node_attempt import NodeGrant
from reconciler.api.objects.plan import Reason
from tests.tools.allocation_world import World, local, on_node, spelled
from tests.tools.builders import (
    Object,
    claim,
    counter_slice,
    device,
    distinct,
    first_of,
    held,
    hold,
    match,
    request,
    resource_slice,
    selectors,
    wants,
)

FEW = 300


def each(count: int, **fields: Any) -> list[Object]:
    return [request(f"r{number}", **fields) for number in range(count)]


def kinds(count: int, values: int, **draws: int) -> list[Object]:
    drawn = {"g": draws} if draws else {}
    return [device(f"d{n:03}", {"n": n, "v": n % values}, draws=drawn) for n in range(count)]


def below(limit: int) -> list[Object]:
    return selectors(f'device.attributes["d"].n < {limit}')


def steps_of(slices: list[Object], *claims: Object) -> tuple[list[str] | Reason | None, int]:
    outcome = on_node(World(slices, claims))
    return spelled(outcome), outcome.steps


@pytest.mark.parametrize("holes", [3, 8, 16, 31])
def test_one_request_more_than_devices_is_seen_at_once(holes: int):
    """More requests than devices; all devices differ, so that none is skipped as equal."""
    answer, steps = steps_of([local(*kinds(holes, holes))], claim("c", *each(holes + 1)))
    assert (answer, steps <= FEW) == (None, True), steps


@pytest.mark.parametrize("holes", [3, 8, 16, 30])
def test_requests_that_only_some_devices_can_meet_are_counted_against_those(holes: int):
    """Many devices, but the requests after the first are all for the same few."""
    narrow = each(holes + 1, selectors=below(holes))
    answer, steps = steps_of([local(*kinds(60, 60))], claim("c", request("any"), *narrow))
    assert (answer, steps <= FEW) == (None, True), steps


@pytest.mark.parametrize("holes", [4, 12])
def test_pigeons_may_come_from_several_claims(holes: int):
    claims = [claim(f"c{number}", request(selectors=below(holes))) for number in range(holes + 1)]
    answer, steps = steps_of([local(*kinds(30, 30))], *claims)
    assert (answer, steps <= FEW) == (None, True), steps


@pytest.mark.parametrize("wanted", [4, 8, 16])
def test_no_value_has_as_many_devices_as_must_agree(wanted: int):
    """Eight values, each on one device fewer than wanted."""
    slices = [local(*kinds(8 * (wanted - 1), 8))]
    together = [match("d/v")]
    answer, steps = steps_of(slices, claim("c", request(count=wanted), constraints=together))
    assert (answer, steps <= FEW) == (None, True), steps
    answer, steps = steps_of(slices, claim("c", *each(wanted), constraints=together))
    assert (answer, steps <= FEW) == (None, True), steps


@pytest.mark.parametrize("draw", [1, 3])
def test_counters_that_are_one_short_are_added_up(draw: int):
    slices = [
        local(*kinds(60, 60, m=draw), slices=2),
        counter_slice("t", {"g": {"m": 20 * draw - 1}}, slices=2, nodeName="n"),
    ]
    for wanted in ([request(count=20)], each(20), [request("r", 10), request("q", 10)]):
        answer, steps = steps_of(slices, claim("c", *wanted))
        assert (answer, steps <= FEW) == (None, True), steps


def partitions(gpu: int) -> list[Object]:
    """The MIG profiles of an A100 40GB, at every placement."""
    placements = {"1g.5gb": (1, 1, range(7)), "2g.10gb": (2, 2, (0, 2, 4)), "3g.20gb": (3, 4, (0, 4))}
    placements |= {"4g.20gb": (4, 4, (0,)), "7g.40gb": (7, 8, (0,))}
    return [
        device(
            f"gpu-{gpu}-{profile.replace('.', '-')}-{start}",
            {"profile": profile, "parent": f"gpu-{gpu}"},
            draws={
                f"gpu-{gpu}": {"compute": compute, **{f"slice-{n}": 1 for n in range(start, start + memory)}}
            },
        )
        for profile, (compute, memory, starts) in placements.items()
        for start in starts
    ]


def mig_node(gpus: int) -> list[Object]:
    counters = {f"gpu-{gpu}": {"compute": 7, **{f"slice-{n}": 1 for n in range(8)}} for gpu in range(gpus)}
    content = [partition for gpu in range(gpus) for partition in partitions(gpu)]
    return [
        resource_slice("s", content, slices=2, nodeName="n"),
        counter_slice("t", counters, slices=2, nodeName="n"),
    ]


def profile(name: str) -> list[Object]:
    return selectors(f'device.attributes["d"].profile == "{name}"')


@pytest.mark.parametrize("gpus", [1, 8])
def test_four_2g_slices_do_not_fit_on_one_a100(gpus: int):
    """Compute is enough for three, memory for four; there are three placements."""
    on_one = [match("d/parent")]
    four = {
        "one request": [request(count=4, selectors=profile("2g.10gb"))],
        "four requests": each(4, selectors=profile("2g.10gb")),
    }
    for requests in four.values():
        answer, steps = steps_of(mig_node(gpus), claim("c", *requests, constraints=on_one))
        assert (answer, steps <= FEW) == (None, True), steps
    three = claim("c", request(count=3, selectors=profile("2g.10gb")), constraints=on_one)
    answer, steps = steps_of(mig_node(gpus), three)
    assert answer == ["r=gpu-0-2g-10gb-0 r=gpu-0-2g-10gb-2 r=gpu-0-2g-10gb-4"]
    assert steps <= FEW


@pytest.mark.parametrize(
    "mix",
    [
        ("3g.20gb", "3g.20gb", "1g.5gb"),
        ("4g.20gb", "4g.20gb"),
        ("7g.40gb", "1g.5gb"),
        ("4g.20gb", "2g.10gb", "2g.10gb"),
    ],
    ids="+".join,
)
def test_mixes_of_partitions_that_no_a100_holds_are_refused(mix: tuple[str, ...]):
    requests = [request(f"r{number}", selectors=profile(name)) for number, name in enumerate(mix)]
    answer, steps = steps_of(mig_node(8), claim("c", *requests, constraints=[match("d/parent")]))
    assert (answer, steps <= FEW) == (None, True), steps


@pytest.mark.parametrize(("gpus", "claims"), [(2, 1), (2, 2), (8, 1), (64, 2)])
def test_partitions_that_fit_by_amounts_and_not_by_place_are_refused_at_once(gpus: int, claims: int):
    """A 4g on each free GPU, and one 2g more than GPUs have places for."""
    free = min(gpus, 12)
    names = ["4g.20gb"] * free + ["2g.10gb"] * (free + 1)
    requests = [request(f"r{number}", selectors=profile(name)) for number, name in enumerate(names)]
    asked = [claim(f"c{number}", *requests[number::claims]) for number in range(claims)]
    outcome = on_node(World(mig_node(gpus), asked, held=whole(range(free, gpus))))
    assert (spelled(outcome), outcome.steps <= FEW) == (None, True), outcome.steps


@pytest.mark.parametrize("gpus", [2, 8, 64])
def test_partitions_in_the_way_of_others_are_moved(gpus: int):
    """First fit puts three 2g on a GPU, which leaves no place for the 4g that each GPU has to hold."""
    free = min(gpus, 12)
    small = request("small", free, selectors=profile("2g.10gb"))
    large = request("large", free, selectors=profile("4g.20gb"))
    outcome = on_node(World(mig_node(gpus), [claim("c", small, large)], held=whole(range(free, gpus))))
    assert isinstance(outcome, NodeGrant)
    assert outcome.steps <= 2 * FEW


def whole(gpus: Iterable[int]) -> list[Object]:
    return [held(f"h{gpu}", hold(f"gpu-{gpu}-7g-40gb-0")) for gpu in gpus]


def test_many_alternatives_that_all_lack_room_are_not_multiplied():
    """SRCH-6: the recorded case that made the limit of a claim a bound."""
    options = {f"a{number}": wants(4) for number in range(8)}
    requests = [first_of(f"r{number}", **options) for number in range(9)]
    answer, steps = steps_of([local(*kinds(60, 60))], claim("c", *requests))
    assert (answer, steps <= FEW) == (Reason.TOO_MANY_DEVICES, True), steps


def test_alternatives_that_cannot_be_met_behind_one_that_can_are_not_multiplied():
    """The last request is impossible; the eight before have eight ways each."""
    options = {f"a{number}": wants() for number in range(8)}
    requests = [first_of(f"r{number}", **options) for number in range(8)]
    hopeless = request("last", 2, selectors=below(1))
    answer, steps = steps_of([local(*kinds(60, 60))], claim("c", *requests, hopeless))
    assert (answer, steps <= FEW) == (None, True), steps


def test_a_hard_instance_that_can_be_met_is_met():
    """Thirty requests for thirty devices, the last one for the device that first fit gives away first."""
    requests = [*each(29), request("last", selectors=below(1))]
    outcome = on_node(World([local(*kinds(30, 30))], [claim("c", *requests)]))
    assert isinstance(outcome, NodeGrant)
    assert outcome.steps <= FEW
    assert outcome.plans[0].allocation.devices.results[-1].device == "d000"


def test_equal_devices_are_tried_once():
    """Fewer values than must differ: without equality every device of each value would be tried."""
    twins = [device(f"d{n:03}", {"v": n % 4}) for n in range(40)]
    answer, steps = steps_of([local(*twins)], claim("c", *each(5), constraints=[distinct("d/v")]))
    assert (answer, steps <= FEW) == (None, True), steps
