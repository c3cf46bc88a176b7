"""What-if answers about gangs."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.analysis.whatif.answering import answer
from reconciler.analysis.whatif.question import Scenario, units_in
from reconciler.analysis.whatif.simulation import Answer, Limit, Placed, Refused
from reconciler.analysis.world import world_of
from reconciler.api.manifests.bundle import bundle
from reconciler.api.manifests.documents import Document, Origin
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.plan import Reason
from reconciler.api.objects.semantics import Semantics, with_gates
from reconciler.api.versions.reading import read
from reconciler.errors import Rejected
from tests.tools.examples import examples
from tests.tools.gangs import annotated, child_of, coscheduling_group, grouped, labelled, pod_group
from tests.tools.small_fleet import DRIVER, Object, claim, device_class, devices, held, node, pod, template

RULES = Semantics()


def gang(size: int, pods: int | None = None, topology: str = "", name: str = "g") -> list[Object]:
    """Pods with a device each."""
    names = [f"{name}{at}" for at in range(size if pods is None else pods)]
    return [
        template("t"),
        *(annotated(one, size=size, gang=name, topology=topology, templates=("t",)) for one in names),
    ]


def used_by(name: str, owner: str, on: str, device: str) -> Object:
    made = claim(name)
    made["metadata"]["uid"] = name
    made["status"] = {
        **held(DRIVER, on, device, on=on),
        "reservedFor": [{"resource": "pods", "name": owner, "uid": owner}],
    }
    return made


def running(name: str, claim_name: str, on: str, size: int, topology: str = "") -> Object:
    return annotated(name, claim_name, size=size, topology=topology, gates=(), nodeName=on)


def test_as_many_gangs_are_placed_as_fit_each_in_one_domain():
    world = racks(a=("r1", 2), b=("r1", 1), c=("r2", 2))
    found = ask(world, *gang(2, topology="rack"))
    assert (found.copies, found.limit) == (2, Limit.FULL)
    assert [(one.copy, dict(one.domain)) for one in found.gangs] == [
        (1, {"rack": "r2"}),  # the smallest that suffices
        (2, {"rack": "r1"}),
    ]
    assert [one.node for one in found.placed] == ["c", "c", "a", "a"]
    assert found.refused is not None
    assert (found.refused.unit, found.refused.reason) == ("gang default/g", "GangUnplaced")


def test_pods_beyond_the_minimum_may_be_left_out():
    found = ask(racks(a=("r", 3)), *gang(2, pods=4), count=1)
    (one,) = found.gangs
    assert found.fits
    assert [seat.unit for seat in one.seats] == ["pod default/g0", "pod default/g1", "pod default/g2"]
    assert one.left_out == ("pod default/g3",)


def test_too_few_pods_do_not_fit_whatever_is_free():
    found = ask(racks(a=("r", 8)), *gang(4, pods=3))
    assert found.refused is not None
    assert (found.refused.reason, found.refused.message) == ("GangIncomplete", "3 of 4 pods exist")


def test_a_gang_fits_without_a_claim_or_with_more_nodes():
    world = [*racks(a=("r", 2)), used_by("old", "p", "a", "d0")]
    assert not ask(world, *gang(2), count=1).fits
    assert ask(world, *gang(2), count=1, without=frozenset([ObjectKey("default", "old")])).fits
    assert ask([*world, *racks(b=("r", 1))[1:]], *gang(2), count=1).fits


def test_a_gang_and_a_drain_compete():
    world = [*racks(a=("r", 2), b=("r", 2)), used_by("old", "p", "a", "d0")]
    found = ask(world, *gang(2), drained=frozenset("a"))
    assert [isinstance(one.elsewhere, Placed) for one in found.lost] == [True]
    assert (found.copies, found.fits) == (0, False)


def test_members_that_lose_their_node_stay_in_the_domain_of_the_others():
    world = [
        *racks(a=("r1", 1), b=("r1", 1), c=("r2", 9), d=("r1", 1)),
        *(used_by(f"c{name}", f"p{name}", name, "d0") for name in "ab"),
        *(running(f"p{name}", f"c{name}", name, 2, "rack") for name in "ab"),
    ]
    (one,) = ask(world, drained=frozenset("a")).lost
    assert isinstance(one.elsewhere, Placed)
    assert one.elsewhere.node == "d"


def test_members_that_lose_their_nodes_together_move_together_or_not_at_all():
    world = [
        *racks(a=("r1", 2), b=("r2", 1), c=("r3", 1)),
        *(used_by(f"c{at}", f"p{at}", "a", f"d{at}") for at in range(2)),
        *(running(f"p{at}", f"c{at}", "a", 2, "rack") for at in range(2)),
    ]
    found = ask(world, drained=frozenset("a"))
    reasons = [one.elsewhere.reason for one in found.lost if isinstance(one.elsewhere, Refused)]
    assert reasons == ["GangUnplaced"] * 2


def test_a_pod_group_and_its_claim_are_read_from_the_same_file():
    asked = [pod_group(topology="rack", claim="shared"), template("shared")]
    for name in ("p0", "p1"):
        one = grouped(name, templates=("shared", "t"))
        asked.append(one)
    found = ask(racks(a=("r", 3)), *asked, template("t"), count=1)
    assert found.fits
    claims = [str(key) for one in found.placed for key, _, _ in one.devices]
    assert sorted(claims) == ["default/g-t0", "default/p0-t1", "default/p1-t1"]


def test_pods_of_a_group_that_is_no_gang_are_placed_one_by_one():
    found = ask(racks(a=("r", 1)), pod_group(least=None), template("t"), grouped("p0", templates=("t",)))
    assert (found.copies, found.gangs) == (1, ())


def test_a_coscheduling_group_is_a_gang_too():
    pods = [labelled(name, templates=("t",)) for name in ("p0", "p1")]
    found = ask(racks(a=("r", 2)), coscheduling_group(), template("t"), *pods, count=1)
    assert len(found.gangs) == 1


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ([grouped("p0")], "PodGroup default/g, which pod default/p0 names, does not exist; add it"),
        ([annotated("p0", size=2), annotated("p1", size=3)], "say size 2 and 3; they must agree"),
        (
            [
                annotated(
                    "p0",
                    size=1,
                    containers=[
                        {"name": "m", "image": "m", "resources": {"requests": {"koordinator.sh/gpu": "100"}}}
                    ],
                )
            ],
            "requests Koordinator's devices; gangs may use ResourceClaims only",
        ),
    ],
)
@pytest.mark.parametrize("of_plugins", [True, False])
def test_a_declaration_that_cannot_be_used_is_refused(asked: list[Object], message: str, of_plugins: bool):
    with pytest.raises(Rejected, match=message):
        ask(racks(a=("r", 1)), *asked, of_plugins=of_plugins)


@examples(12)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=4), st.integers(1, 4))
def test_as_many_gangs_fit_as_devices_of_a_rack_suffice_for(counts: list[int], size: int):
    """Devices of one kind, a rack a node: each gang needs a rack with enough."""
    world = racks(**{f"n{at}": (f"r{at}", count) for at, count in enumerate(counts)})
    assert ask(world, *gang(size, topology="rack")).copies == sum(count // size for count in counts)


# -- What-if answers about pods that share a claim: they are judged together.


def test_pods_that_share_a_claim_share_its_devices():
    world = racks(a=("r", 1), b=("r", 9))
    found = ask(world, claim("c"), pod("p0", "c"), pod("p1", "c"), count=1)
    told = [(one.unit, one.node, len(one.devices)) for one in found.placed]
    assert told == [("pod default/p0", "a", 1), ("pod default/p1", "a", 0)]


def apart(name: str, *claims: str) -> Object:
    """A pod that keeps others of its kind off its node."""
    term = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "kubernetes.io/hostname"}
    rule = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    made = pod(name, *claims, affinity=rule)
    made["metadata"]["labels"] = {"app": "x"}
    return made


def hosts(*names: str) -> list[Object]:
    return [node(name, **{"kubernetes.io/hostname": name}) for name in names]


def reached_by(rack: str, *names: str) -> Object:
    """Devices that all nodes of a rack reach."""
    made = devices(f"pool-{rack}", *names)
    del made["spec"]["nodeName"]
    term = {"matchExpressions": [{"key": "rack", "operator": "In", "values": [rack]}]}
    made["spec"]["nodeSelector"] = {"nodeSelectorTerms": [term]}
    return made


def test_pods_that_share_a_claim_are_judged_together():
    """Alone, the first pod would take the device of the rack with one node."""
    nodes = hosts("a", "b", "c")
    for one, rack in zip(nodes, ("r1", "r2", "r2"), strict=True):
        one["metadata"]["labels"]["rack"] = rack
    world = [device_class(), *nodes, reached_by("r1", "d0"), reached_by("r2", "d0")]
    found = ask(world, claim("c"), apart("p0", "c"), apart("p1", "c"))
    assert (found.copies, [one.node for one in found.placed]) == (1, ["b", "c"])
    assert found.placed[0].devices[0][2].pool == "pool-r2"
    assert found.refused is not None


def test_pods_that_share_a_local_claim_and_keep_apart_do_not_fit():
    world = [device_class(), *hosts("a", "b"), devices("a", "d0"), devices("b", "d0")]
    found = ask(world, claim("c"), apart("p0", "c"), apart("p1", "c"))
    assert found.refused is not None
    assert (found.copies, found.refused.unit) == (0, "pod default/p0")


def test_a_chain_of_shared_claims_has_room_as_by_trying_everything():
    """p0 and p1 share a claim; p1 also has one of its own, for which its node needs another device."""
    for counts in product(range(3), repeat=2):
        world = [device_class(), *hosts("a", "b")]
        world += [devices(name, *(f"d{at}" for at in range(n))) for name, n in zip("ab", counts, strict=True)]
        found = ask(world, claim("s"), claim("own"), pod("p0", "s"), pod("p1", "s", "own"), count=1)
        alone = [n for n in counts if n >= 1]
        # First fit: the shared claim goes to the first node with a device, whatever p1 needs besides.
        assert found.fits == (bool(alone) and alone[0] >= 2)


def test_gates_that_are_off_are_off_here_too():
    """What a snapshot or a server lacks is not there in a question either, and has a reason of its own."""
    asked = [pod_group(claim="shared"), template("shared"), grouped("p0", templates=("shared",))]
    for gate in ("GenericWorkload", "CompositePodGroup"):
        without = Semantics(gates=with_gates(f"{gate}=false"))
        inner = child_of("top", pod_group())
        found = ask(racks(a=("r", 2)), inner, template("t"), grouped("p0", templates=("t",)), rules=without)
        assert found.refused is not None
        assert (found.refused.reason, gate in found.refused.message) == (Reason.FEATURE_DISABLED, True)
    rules = Semantics(gates=with_gates("DRAWorkloadResourceClaims=false"))
    with pytest.raises(
        Rejected, match="none is made while the feature gate DRAWorkloadResourceClaims is off"
    ):
        ask(racks(a=("r", 2)), *asked, rules=rules)


# -- Asks what would be in a small world, given as JSON.


def racks(**racks: tuple[str, int]) -> list[Object]:
    """A device class, and nodes with a rack and a number of devices."""
    found = [device_class()]
    for name, (rack, count) in racks.items():
        found += [node(name, rack=rack), devices(name, *(f"d{at}" for at in range(count)))]
    return found


def ask(
    world: list[Object],
    *asked: Object,
    rules: Semantics = RULES,
    of_plugins: bool = True,
    **options: object,
) -> Answer:
    """Ask for the objects `asked`, with the options of a `Scenario`."""
    units = units_in(bundle([Document(Origin("test"), raw) for raw in asked]), rules, of_plugins=of_plugins)
    base = world_of(map(read, world), rules, may_suppose=True)
    return answer(Scenario(units, **options), base)  # type: ignore[arg-type]
