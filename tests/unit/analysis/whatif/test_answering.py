"""What-if answers against the decisions on a cluster that really is so."""

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.allocation.dra.budget import StepLimit, Unfinished
from reconciler.analysis.whatif.answering import answer
from reconciler.analysis.whatif.question import MAX_UNITS, Scenario, units_in
from reconciler.analysis.whatif.simulation import Answer, Limit, Lost, Placed, Refused
from reconciler.analysis.world import World, world_of
from reconciler.api.manifests.bundle import Bundle, bundle
from reconciler.api.manifests.documents import Document, Origin
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.plan import Granted
from reconciler.api.objects.semantics import Semantics
from reconciler.api.versions.reading import read as read_object
from reconciler.control.offline import decide as decide_offline
from reconciler.errors import Malformed, Rejected
from tests.tools.builders import Object, gpu_slice
from tests.tools.examples import examples
from tests.tools.small_fleet import claim, device_class, held, node, pod, template

DRIVER = "gpu.example.com"


def gpus(on: str, count: int) -> Object:
    return gpu_slice(on, count, driver=DRIVER)


def holding(name: str, on: str, *devices: str, **fields: object) -> Object:
    made = claim(name)
    made["metadata"] |= {"uid": name, **fields}
    return {**made, "status": held(DRIVER, on, *devices, on=on)}


def read(*objects: Object) -> Bundle:
    return bundle([Document(Origin("test"), raw) for raw in objects])


def ask(world: list[Object], *asked: Object, **options: object) -> Answer:
    scenario = Scenario(units_in(read(*asked), Semantics()), **options)  # type: ignore[arg-type]
    return answer(scenario, base(world))


def base(world: list[Object]) -> World:
    return world_of(map(read_object, world), Semantics(), may_suppose=True)


def fleet(**counts: int) -> list[Object]:
    nodes = [node(name) for name in counts]
    return [device_class(), *nodes, *(gpus(name, count) for name, count in counts.items())]


def lost(found: Answer) -> dict[str, str]:
    return {
        str(one.claims[0]): one.elsewhere.node if isinstance(one.elsewhere, Placed) else one.elsewhere.reason
        for one in found.lost
    }


def test_no_more_copies_are_tried_than_the_bound():
    scenario = Scenario(units_in(read(claim("c")), Semantics()))
    found = answer(scenario, base(fleet(a=8)), max_copies=5)
    assert (found.copies, found.limit, found.refused) == (5, Limit.BOUND, None)


def test_a_copy_counts_when_all_of_it_fits():
    found = ask(fleet(a=3), claim("c"), claim("d", 2))
    assert (found.copies, found.refused and found.refused.unit) == (1, "claim default/c")
    assert ask(fleet(a=2), claim("c"), claim("d", 2)).fits is False


def used_by(made: Object, name: str) -> Object:
    made["status"]["reservedFor"] = [{"resource": "pods", "name": name, "uid": name}]
    return made


def test_the_claims_of_one_pod_move_together():
    one, two = (used_by(holding(f"c{n}", "a", f"gpu-{n}"), "p") for n in range(2))
    found = ask([*fleet(a=2, b=1, c=2), one, two, pod("p", "c0", "c1")], drained=frozenset("a"))
    (both,) = found.lost
    assert (len(both.claims), both.pod, lost(found)) == (2, ObjectKey("default", "p"), {"default/c0": "c"})


def test_a_pod_that_may_run_nowhere_else_loses_its_claims():
    only = pod("p", "c", gates=(), nodeName="a", nodeSelector={"zone": "x"})
    found = ask([*fleet(a=1, b=1), used_by(holding("c", "a", "gpu-0"), "p"), only], drained=frozenset("a"))
    (one,) = found.lost
    assert isinstance(one.elsewhere, Refused)
    assert one.elsewhere.reason == "NoNode"


def test_devices_that_others_reach_too_stay():
    anywhere = gpus("net", 1)
    del anywhere["spec"]["nodeName"]
    anywhere["spec"]["allNodes"] = True
    elsewhere = holding("c", "net", "gpu-0")
    del elsewhere["status"]["allocation"]["nodeSelector"]
    assert ask([*fleet(a=1, b=1), anywhere, elsewhere], drained=frozenset("a")).lost == ()


def test_a_pod_asks_with_its_selector_and_its_templates():
    world = fleet(a=4, b=4)
    world[2]["metadata"]["labels"] = {"zone": "x"}
    asked = pod("p", "named", templates=("t",), nodeSelector={"zone": "x"})
    found = ask(world, claim("named"), template("t", 2), asked)
    assert (found.copies, {one.node for one in found.placed}) == (1, {"b"})
    assert ask(world, template("t", 2)).copies == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"without": frozenset([ObjectKey("default", "no")])}, "there is no claim default/no"),
        ({"without": frozenset([ObjectKey("default", "waits")])}, "holds no devices"),
        ({"drained": frozenset(["no"])}, "there is no node no"),
    ],
)
def test_what_is_not_there_is_refused(options: dict[str, object], message: str):
    with pytest.raises(Rejected, match=message):
        ask([*fleet(a=1), claim("waits")], claim("c"), **options)


def test_a_pod_whose_claims_are_not_beside_it_is_refused():
    with pytest.raises(Malformed, match=r"claim default/c is missing; .* or move .* to a second -f"):
        units_in(read(pod("p", "c")), Semantics())
    with pytest.raises(Malformed, match=f"the maximum is {MAX_UNITS}"):
        units_in(read(*[claim(f"c{n}") for n in range(MAX_UNITS + 1)]), Semantics())


def test_an_answer_can_be_broken_off():
    with pytest.raises(Unfinished):
        answer(Scenario(units_in(read(claim("c")), Semantics())), base(fleet(a=64)), budget=StepLimit(10))


Sizes = dict[str, int]


@examples(30)
@given(
    st.dictionaries(st.sampled_from("abc"), st.integers(1, 3), min_size=1),
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 2)), unique=True, max_size=4),
    st.integers(1, 3),
    st.sampled_from("abc"),
    st.lists(st.integers(0, 3), max_size=2, unique=True),
)
def test_it_is_as_if_it_were_so(
    sizes: Sizes, taken: list[tuple[str, int]], count: int, gone: str, freed: list[int]
):
    """Asked of another world, or asked there without assumptions: the same."""
    taken = [(on, n) for on, n in taken if n < sizes.get(on, 0)]
    olds = [holding(f"old-{at}", on, f"gpu-{n}") for at, (on, n) in enumerate(taken)]
    drained = frozenset([gone] if gone in sizes and len(sizes) > 1 else [])
    without = frozenset(ObjectKey("default", f"old-{at}") for at in freed if at < len(olds))
    asked = claim("new", count)
    supposed = ask([*fleet(**sizes), *olds], asked, without=without, drained=drained)

    left = {name: n for name, n in sizes.items() if name not in drained}
    stay = [
        old
        for (on, _), old in zip(taken, olds, strict=True)
        if on not in drained and old["metadata"]["name"] not in {key.name for key in without}
    ]
    moved = [
        old
        for (on, _), old in zip(taken, olds, strict=True)
        if on in drained and old["metadata"]["name"] not in {key.name for key in without}
    ]
    waiting = [{key: value for key, value in old.items() if key != "status"} for old in moved]
    copies = [deepcopy(asked) for _ in range(10)]
    for number, copy in enumerate(copies):
        copy["metadata"]["name"] = f"z-{number:02}"
    report = decide_offline(read(*fleet(**left), *stay, *waiting, *copies), Semantics())
    granted = {
        plan.claim.name: one.outcome.node
        for one in report.answers
        if isinstance(one.outcome, Granted)
        for plan in one.outcome.plans
    }
    assert supposed.copies == sum(name.startswith("z-") for name in granted)
    assert [one.node for one in supposed.placed] == [granted[f"z-{n:02}"] for n in range(supposed.copies)]
    told = {one.claims[0].name: one.elsewhere for one in supposed.lost}
    found = {name: one.node for name, one in told.items() if isinstance(one, Placed)}
    assert found == {name: on for name, on in granted.items() if not name.startswith("z-")}
    assert set(told) == {one["metadata"]["name"] for one in moved}


def test_lost_claims_say_what_they_hold():
    (one,) = ask([*fleet(a=2), holding("c", "a", "gpu-0", "gpu-1")], drained=frozenset("a")).lost
    assert isinstance(one, Lost)
    assert [device.device for device in one.devices] == ["gpu-0", "gpu-1"]


def sized(name: str, cpu: str) -> Object:
    return {**node(name), "status": {"allocatable": {"pods": "110", "cpu": cpu}}}


def asking(name: str, cpu: str, *claims: str, **spec: Any) -> Object:
    container = {"name": "main", "image": "main", "resources": {"requests": {"cpu": cpu}}}
    return pod(name, *claims, containers=[container], **spec)


def test_each_copy_of_a_pod_takes_room_beside_the_pods_that_run():
    world = [device_class(), sized("a", "5"), gpus("a", 9), asking("busy", "1", gates=(), nodeName="a")]
    found = ask(world, claim("c"), asking("p", "2", "c"))
    assert (found.copies, found.limit, found.refused and found.refused.reason) == (2, Limit.FULL, "NoNode")
    assert found.refused is not None
    assert "0 of 1 nodes suit the pod: 1 Insufficient cpu" in found.refused.message


def test_what_a_drained_node_takes_with_it_needs_room_elsewhere():
    moved = asking("p", "2", "c", gates=(), nodeName="a")
    lost_claim = used_by(holding("c", "a", "gpu-0"), "p")
    for cpu, elsewhere in (("1", "NoNode"), ("2", "b")):
        world = [
            device_class(),
            sized("a", "2"),
            sized("b", cpu),
            gpus("a", 1),
            gpus("b", 1),
            lost_claim,
            moved,
        ]
        assert lost(ask(world, drained=frozenset("a"))) == {"default/c": elsewhere}


@pytest.mark.parametrize("spec", [{}, {"metadata": None}, {"spec": {}}])
def test_a_template_that_asks_for_nothing_fits(spec: Object):
    asked = {**template("t"), "spec": spec}
    assert ask(fleet(a=1), asked, count=1).fits
