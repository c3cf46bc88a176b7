"""Who has to leave: against every set of pods, and the cases that operators meet."""

from itertools import product
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reconciler.allocation.gangs.kinds import GangQuestion, Member
from reconciler.analysis.relocation.leaving import Attempts
from reconciler.analysis.relocation.make_room import TRIES, Advice, make_room
from reconciler.analysis.relocation.occupants import Occupants
from reconciler.analysis.world import NoFit, Place, WantedGang, WantedPod, world_of
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Pod
from reconciler.api.objects.gangs import GangKey, GangSource, Tier
from reconciler.api.objects.semantics import Semantics
from reconciler.api.versions.reading import read
from tests.tools.builders import device, gpu_slice, resource_slice
from tests.tools.examples import examples
from tests.tools.room_twin import difference, leaving
from tests.tools.room_worlds import names, room_world, running
from tests.tools.small_fleet import DRIVER, Object, budget, claim, device_class, node, pod
from tests.tools.volume_scenarios import mounting, volume, volume_claim

OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r", "controller": True}


@given(st.integers(0, 2**32))
@examples(7)
@example(711190)  # a released device that another claim shares is not left
@example(716952)  # a pod that shares a claim may lose its place when others leave
def test_the_set_is_the_cheapest_of_all(seed: int):
    assert difference(seed) == ""


@given(st.integers(0, 2**32))
@examples(4)
def test_with_moves_only_nobody_loses_a_place(seed: int):
    assert difference(seed, moves_only=True) == ""
    world = room_world(seed)
    state = world.world()
    before = state.store.snapshot().occupancy.held.tolist()
    advice, any_set = make_room(world.wanted, state, moves_only=True), make_room(world.wanted, state)
    assert all(move.refusal is None and move.places for move in advice.moves)
    assert not advice.fits or any_set.cost <= advice.cost
    assert state.store.snapshot().occupancy.held.tolist() == before


@given(st.integers(0, 2**32))
@examples(12)
@example(716952)
@example(900101)
def test_what_could_not_fit_fits_without_no_set(seed: int):
    world = room_world(seed)
    state, sets = world.world(), [frozenset(pod.key for pod in pods) for pods in leaving(world)]
    everyone = frozenset().union(*sets)
    occupants = Occupants(state)
    with state.trial() as trial:
        attempts = Attempts(world.wanted, trial, occupants, tries=1_000_000)
        names = trial.snapshot.topology.order if isinstance(world.wanted, WantedPod) else [None]
        for node, pods in product(names, [everyone, *(everyone - {one} for one in everyone)]):
            if not attempts.could_fit(pods, node):
                assert not any(attempts.fits(one, node) for one in sets if one <= pods)


def advice(
    *objects: Object, count: int = 1, moves_only: bool = False, tries: int = TRIES, **spec: Any
) -> Advice:
    """Who leaves for a pod of priority 10 on nodes `n` with two devices and `m` with one."""
    host = "kubernetes.io/hostname"
    fleet = [
        node("m", **{host: "m"}),
        node("n", **{host: "n"}),
        device_class(),
        gpu_slice("n", 2, driver=DRIVER),
    ]
    fleet.append(gpu_slice("m", 1, driver=DRIVER))
    world = world_of(map(read, [*fleet, *objects]), Semantics())
    wanted, user = read(claim("w", count)), read(pod("w", "w", **{"priority": 10, **spec}))
    assert isinstance(wanted, ResourceClaim)
    assert isinstance(user, Pod)
    return make_room(WantedPod((wanted,), user), world, moves_only=moves_only, tries=tries)


FULL = [*running("a", "gpu-0"), *running("b", "gpu-1", priority=5), *running("c", "gpu-0", on="m")]


def test_the_pod_leaves_whose_devices_are_all_needed():
    """All else is equal; by name, the pod that holds both devices of its node would be first."""
    found = advice(*running("a", "gpu-0", "gpu-1"), *running("c", "gpu-0", on="m"))
    assert names(found) == ["c"]
    assert found.cost.devices == 0
    assert found.optimal


def test_a_device_that_two_claims_of_a_pod_share_is_released_once():
    """All else is equal, also the number of devices that are not needed; so the name decides."""
    whole = [device(f"gpu-{at}", {"whole": True}) for at in range(2)]
    shared = {**device("gpu-1", {"whole": False}), "allowMultipleAllocations": True}
    fleet = [device_class(), node("n"), node("m")]
    for host, there in (("n", [whole[0], shared]), ("m", whole)):
        fleet.append(resource_slice(host, there, pool=host, driver=DRIVER, nodeName=host))
    (one, user), (two, _) = running("a", "gpu-0", "gpu-1"), running("a", "gpu-1")
    two["metadata"] |= {"name": "a2", "uid": "claim-a2"}
    for number, made in enumerate((one, two)):
        results = made["status"]["allocation"]["devices"]["results"]
        results[-1]["shareID"] = f"00000000-0000-0000-0000-00000000000{number}"
    user["spec"]["resourceClaims"].append({"name": "two", "resourceClaimName": "a2"})
    fleet += [one, two, user, *running("b", "gpu-0", "gpu-1", on="m")]
    pending, only = claim("w"), {"cel": {"expression": f"device.attributes['{DRIVER}'].whole"}}
    pending["spec"]["devices"]["requests"][0]["exactly"]["selectors"] = [only]
    wanted, waiting = read(pending), read(pod("w", "w", priority=10))
    assert isinstance(wanted, ResourceClaim)
    assert isinstance(waiting, Pod)
    found = make_room(WantedPod((wanted,), waiting), world_of(map(read, fleet), Semantics()))
    assert names(found) == ["a"]
    assert found.cost.devices == 1


def test_a_device_that_two_generations_of_its_pool_have_is_released_once():
    """All else is equal, also the number of devices that are not needed; so the name decides."""
    newer = [device("gpu-0"), device("gpu-1")]
    second = resource_slice("n-2", newer, pool="n", generation=2, driver=DRIVER, nodeName="n")
    high = running("c", "gpu-0", on="m", priority=100)
    other = [node("o"), gpu_slice("o", 2, driver=DRIVER), *running("b", "gpu-0", "gpu-1", on="o")]
    found = advice(*running("a", "gpu-0", "gpu-1"), second, *high, *other)
    assert names(found) == ["a"]
    assert found.cost.devices == 1


def test_a_set_that_fits_costs_one_try():
    found = advice(
        *FULL[:2], *running("b", "gpu-1", priority=100), *running("c", "gpu-0", on="m", priority=100), tries=1
    )
    assert names(found) == ["a"]
    assert found.tries == 1
    assert found.optimal


class InAHurry(WantedPod, frozen=True):
    """Searches with few steps."""

    def place(self, *args: Any, **options: Any) -> tuple[Place, ...] | NoFit:
        return super().place(*args, **{"steps": 30, **options})


@pytest.mark.parametrize("moves_only", [False, True])
def test_it_goes_where_it_was_seen_to_fit_if_the_search_of_all_nodes_gives_up(moves_only: bool):
    """On twelve nodes before that of the pod that leaves, all steps are used up in vain."""
    fleet = [device_class(), node("idle"), gpu_slice("idle", 1, driver=DRIVER)]
    for host in [*(f"hard-{at:02}" for at in range(12)), "last"]:
        hard = [device(f"gpu-{at}", {"v": at % 7, "w": (at * 5 + at // 7) % 6}) for at in range(28)]
        easy = [device(f"gpu-{at}", {"v": at, "w": at}) for at in range(7)]
        there = easy if host == "last" else hard
        fleet += [node(host), resource_slice(host, there, pool=host, driver=DRIVER, nodeName=host)]
    fleet += running("a", "gpu-0", on="last", metadata={"ownerReferences": [OWNER]})
    wanted, user = claim("w", 7), read(pod("w", "w", priority=10))
    wanted["spec"]["devices"]["constraints"] = [{"distinctAttribute": f"{DRIVER}/{name}"} for name in "vw"]
    seven, state = read(wanted), world_of(map(read, fleet), Semantics())
    assert isinstance(seven, ResourceClaim)
    assert isinstance(user, Pod)
    found = make_room(InAHurry((seven,), user), state, moves_only=moves_only)
    assert names(found) == ["a"]
    assert [place.node for place in found.places] == ["last"]


def test_a_budget_is_spared_before_a_priority():
    apps = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["a", "c"]}]}
    keep = budget("keep", selector=apps)
    assert names(advice(*FULL, keep)) == ["b"]
    both = advice(*FULL, keep, count=2)
    assert names(both) == ["a", "b"]
    assert {str(key): count for key, count in (both.violated or {}).items()} == {"default/keep": 1}


def test_a_budget_that_always_allows_it_ignores_pods_that_are_not_ready():
    ready = [
        {**one, "status": {**one.get("status", {}), "conditions": [{"type": "Ready", "status": "True"}]}}
        if one["kind"] == "Pod" and one["metadata"]["name"] != "b"
        else one
        for one in FULL
    ]
    assert names(advice(*ready, budget(unhealthyPodEvictionPolicy="AlwaysAllow"))) == ["b"]
    assert names(advice(*ready, budget())) == ["a"]


def test_pods_of_equal_priority_stay():
    found = advice(*[one | {} for one in FULL], priority=0)
    assert found.refusal is not None
    assert found.refusal.reason == "NoRoomToMake"
    assert found.refusal.message.startswith(
        "there is no pod of lower priority; without evictions: claim default/w"
    )
    assert found.optimal


def test_a_pod_that_never_preempts_waits():
    found = advice(*FULL, preemptionPolicy="Never")
    assert found.refusal is not None
    assert found.refusal.reason == "PreemptionNever"


def test_pods_that_are_being_deleted_count_as_gone():
    leaving = running("a", "gpu-0", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    found = advice(*leaving, *FULL[2:])
    assert not found.victims
    assert [key.name for key in found.leaving] == ["a"]
    assert found.fits


def test_what_does_not_fit_even_then_is_refused_with_proof():
    found = advice(*FULL, count=3)
    assert found.refusal is not None
    why, _, now = found.refusal.message.partition("; without evictions: ")
    assert why == "the 3 pods of lower priority do not make enough room"
    assert now.startswith("claim default/w, request r: 3 of 3 devices match")
    assert found.optimal


@pytest.mark.parametrize("count", [2, 3])
def test_nothing_is_proved_for_pods_that_want_others_near_or_far(count: int):
    spread = {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule"}
    found = advice(*FULL, count=count, topologySpreadConstraints=[spread])
    assert not found.optimal
    assert found.fits == (count == 2)


@pytest.mark.parametrize("on", ["n", "m"])
def test_a_pod_leaves_whose_volume_only_one_pod_may_use_wherever_it_runs(on: str):
    rival = pod("rival", gates=(), nodeName=on, **mounting("alone"))
    alone = volume_claim("alone", volume="v", accessModes=["ReadWriteOncePod"])
    wanted = {"nodeSelector": {"kubernetes.io/hostname": "n"}, **mounting("alone")}
    found = advice(*running("a", "gpu-0"), rival, alone, volume("v", of="alone"), **wanted)
    assert names(found) == ["rival"]
    assert found.optimal


def test_those_that_leave_are_placed_elsewhere_if_something_replaces_them():
    movable = running("a", "gpu-0", metadata={"ownerReferences": [OWNER]})
    found = advice(*movable, count=2, moves_only=True)
    (move,) = found.moves
    assert [place.node for place in move.places] == ["m"]
    (evicted,) = found.as_json()["evict"]
    assert evicted["pods"] == ["default/a"]
    assert evicted["goesTo"][0]["devices"][0]["pool"] == "m"


@pytest.mark.parametrize(("counts", "victims"), [((1, 8), 9), ((1, 4), 5)])
def test_nobody_leaves_for_nothing_where_the_pods_of_a_gang_differ(counts: tuple[int, int], victims: int):
    """Too many pods for all sets to be tried, and the nodes are full: the smaller member needs one device."""
    fleet = [device_class()]
    for host in "nm":
        fleet += [node(host), gpu_slice(host, 8, driver=DRIVER)]
        for number in range(8):
            fleet += running(f"{host}{number}", f"gpu-{number}", on=host)
    members = []
    for count in counts:
        wanted = claim(f"w{count}", count)
        wanted["metadata"]["uid"] = f"w{count}"
        user, own = read(pod(f"w{count}", f"w{count}", priority=10)), read(wanted)
        assert isinstance(user, Pod)
        assert isinstance(own, ResourceClaim)
        members.append(Member(user, (own,)))
    gang = GangQuestion(GangKey("default", GangSource.ANNOTATION, "g"), tuple(members), 2)
    found = make_room(WantedGang(gang), world_of(map(read, fleet), Semantics()))
    assert len(found.victims) == victims


@pytest.mark.parametrize("members", [0, 2])
def test_one_device_serves_several_requests_if_it_may_be_shared(members: int):
    """Also as many pods of a gang: who holds the device leaves, and nobody has to hold a second one."""
    shareable = {**device("gpu-0"), "allowMultipleAllocations": True}
    fleet = [
        device_class(),
        node("n"),
        resource_slice("s", [shareable], pool="n", driver=DRIVER, nodeName="n"),
    ]
    fleet += running("a", "gpu-0")
    pods = []
    for at in range(members or 2):
        wanted = claim(f"w{at}")
        wanted["metadata"]["uid"] = f"w{at}"
        user, own = read(pod(f"w{at}", f"w{at}", priority=10)), read(wanted)
        assert isinstance(user, Pod)
        assert isinstance(own, ResourceClaim)
        pods.append(Member(user, (own,)))
    alone = WantedPod(tuple(own for one in pods for own in one.claims), pods[0].pod)
    key = GangKey("default", GangSource.ANNOTATION, "g")
    asked = WantedGang(GangQuestion(key, tuple(pods), members)) if members else alone
    found = make_room(asked, world_of(map(read, fleet), Semantics()))
    assert names(found) == ["a"]
    assert found.optimal


def test_a_domain_that_one_pod_fills_is_not_taken_for_a_costly_one():
    """The members are more than are expected on one node, and one eviction is enough for all of them."""
    count = 40
    every = [f"gpu-{at}" for at in range(count)]
    fleet = [device_class(), node("idle")]
    for host in "nm":
        fleet += [node(host, zone=host), gpu_slice(host, count, driver=DRIVER)]
    fleet += running("m0", *every[:10], on="m") + running("m1", *every[10:], on="m")
    fleet += running("n0", *every, on="n")
    fleet += [pod(f"idle{at}", gates=(), nodeName="idle") for at in range(12)]
    members = []
    for at in range(count):
        wanted = claim(f"w{at}")
        wanted["metadata"]["uid"] = f"w{at}"
        user, own = read(pod(f"w{at}", f"w{at}", priority=10)), read(wanted)
        assert isinstance(user, Pod)
        assert isinstance(own, ResourceClaim)
        members.append(Member(user, (own,)))
    key = GangKey("default", GangSource.ANNOTATION, "g")
    gang = GangQuestion(key, tuple(members), count, (Tier("zone", required=True),))
    assert names(make_room(WantedGang(gang), world_of(map(read, fleet), Semantics()))) == ["n0"]


@pytest.mark.parametrize("kind", ["", "DaemonSet"])
def test_nobody_moves_that_nothing_replaces(kind: str):
    owners = {"ownerReferences": [{**OWNER, "kind": kind}]} if kind else {}
    found = advice(*running("a", "gpu-0", metadata=owners), count=2)
    (move,) = found.moves
    assert move.refusal is not None
    assert move.refusal.reason == "NotReplaced"
    assert not advice(*running("a", "gpu-0", metadata=owners), count=2, moves_only=True).fits
