"""Who has to leave for pods and gangs whose claims others use, too."""

import pytest

from reconciler.allocation.gangs.kinds import GangQuestion, Member
from reconciler.analysis.relocation.make_room import Advice, make_room
from reconciler.analysis.world import WantedGang, WantedPod, world_of
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Pod
from reconciler.api.objects.gangs import GANG, SIZE, GangKey, GangSource
from reconciler.api.objects.semantics import Semantics
from reconciler.api.versions.reading import read
from tests.tools.builders import device, gpu_slice, resource_slice
from tests.tools.room_worlds import names, running
from tests.tools.small_fleet import DRIVER, Object, claim, device_class, node, pod

ELSEWHERE = [*running("c", "gpu-0", on="m", priority=100), *running("d", "gpu-1", on="m", priority=100)]


def sharing(*objects: Object, others: tuple[Object, ...] = (), also: int = 0) -> Advice:
    """Who leaves for a pod of priority 10 that also uses claim `a`. Nodes `n` and `m` have two devices each.

    `others` are gated pods that share its claims: the one that is pending, unless `also` is 1.
    """
    fleet = [
        device_class(),
        *(one for host in "nm" for one in (node(host), gpu_slice(host, 2, driver=DRIVER))),
    ]
    world = world_of(map(read, [*fleet, *objects]), Semantics())
    wanted, user = read(claim("w")), read(pod("w", "a", "w", priority=10))
    assert isinstance(wanted, ResourceClaim)
    assert isinstance(user, Pod)
    held, beside = tuple(world.store.claims[one] for one in world.store.claims if one.name == "a"), []
    for one in map(read, others):
        assert isinstance(one, Pod)
        beside.append((one, held if also else (), (also,)))
    return make_room(WantedPod((wanted,), user, held, tuple(beside)), world)


def test_nobody_leaves_whose_claim_would_only_need_the_device_again():
    found = sharing(*running("a", "gpu-0"), *running("b", "gpu-1", priority=100), *ELSEWHERE)
    assert not found.fits
    assert found.optimal
    assert names(sharing(*running("a", "gpu-0"), *running("b", "gpu-1", priority=5), *ELSEWHERE)) == ["b"]


def test_a_pod_leaves_so_that_a_claim_of_both_finds_devices_on_another_node():
    found = sharing(*running("a", "gpu-0"), *running("b", "gpu-1", priority=100))
    assert names(found) == ["a"]
    assert found.optimal
    assert [(one.node, len(one.plans)) for one in found.places] == [("m", 2)]


def of_gang(devices: int, *objects: Object, members: tuple[str, ...]) -> Advice:
    """Who leaves for a gang on node `n`; its first member uses claim `a`, too."""
    fleet = [device_class(), node("n"), gpu_slice("n", devices, driver=DRIVER), *objects]
    state = world_of(map(read, fleet), Semantics())
    made: list[Member] = []
    for name in members:
        shared = tuple(one for key, one in state.store.claims.items() if key.name == "a" and not made)
        raw = claim(name)
        raw["metadata"]["uid"] = name
        own, user = read(raw), read(pod(name, *(one.key.name for one in shared), name, priority=10))
        assert isinstance(user, Pod)
        assert isinstance(own, ResourceClaim)
        made.append(Member(user, (own,), shared))
    gang = GangKey("default", GangSource.ANNOTATION, "g")
    return make_room(WantedGang(GangQuestion(gang, tuple(made), len(made))), state)


def test_nobody_leaves_whose_claim_a_member_of_a_gang_would_need_again():
    there = [*running("a", "gpu-0"), *running("b", "gpu-1", priority=100)]
    found = of_gang(3, *there, members=("v", "w"))
    assert not found.fits
    assert found.optimal
    assert names(of_gang(3, *there[:2], *running("b", "gpu-1"), members=("v", "w"))) == ["b"]


def test_a_pod_stays_on_whose_claim_a_member_of_the_gang_has_its_seat():
    """The seat counts for the gang's minimum. It would end with the claim's allocation."""
    seated = pod("s", "z", priority=10)
    seated["metadata"] |= {"uid": "s", "annotations": {GANG: "g", SIZE: "2"}}
    there = [*running("z", "gpu-0"), *running("b", "gpu-1", priority=100)]
    assert names(of_gang(2, *there, members=("w",))) == ["z"]
    assert not of_gang(2, *there, seated, members=("w",)).fits


def test_fewer_pods_leave_if_the_devices_of_a_claim_cannot_be_had_again():
    """Without both pods it does not fit: claim `a` has a device that its node does not have any more."""
    found = of_gang(1, *running("a", "gpu-7"), *running("b", "gpu-0", priority=5), members=("w",))
    assert names(found) == ["b"]
    assert found.optimal


def sharing_all(*values: int) -> Advice:
    """Who leaves for a pod that shares claims with five pods, and needs as many devices of equal values.

    More devices have these values; the first one is in use. Without any, one device is needed.
    """
    keys, count = [f"p{at}" for at in range(5)], len(values)
    there = [device(f"gpu-{at}", {"v": value}) for at, value in enumerate([*values, *range(100, 105)])]
    fleet = [device_class(), node("n"), resource_slice("n", there, pool="n", driver=DRIVER, nodeName="n")]
    fleet += running("x", "gpu-0", priority=5) if values else []
    for at, key in enumerate(keys, count):
        fleet += running(key, f"gpu-{at}")
    raw, state = claim("w", count or 1), world_of(map(read, fleet), Semantics())
    raw["spec"]["devices"]["constraints"] = [{"matchAttribute": f"{DRIVER}/v"}]
    wanted, user = read(raw), read(pod("w", "w", *keys, priority=10))
    assert isinstance(wanted, ResourceClaim)
    assert isinstance(user, Pod)
    held = tuple(one for key, one in state.store.claims.items() if key.name in keys)
    return make_room(WantedPod((wanted,), user, held), state)


def test_of_many_that_share_claims_nobody_leaves_in_vain():
    found = sharing_all(1, 1)
    assert names(found) == ["x"]
    assert found.optimal


@pytest.mark.parametrize("values", [(1, 2), ()])
def test_it_is_proved_that_no_shared_claim_makes_room(values: tuple[int, ...]):
    found = sharing_all(*values)
    assert not found.fits
    assert found.optimal


def test_pods_that_share_a_claim_count_as_members_of_a_gang_do():
    full = [*running("a", "gpu-0", priority=100), *running("b", "gpu-1"), *ELSEWHERE]
    assert names(sharing(*full, others=(pod("v", "w", priority=1),))) == ["b"]
    lower = sharing(*full, others=(pod("v", "w", priority=0),))
    assert lower.priority == 0
    assert not lower.fits
    never = sharing(*full, others=(pod("v", "w", priority=1, preemptionPolicy="Never"),))
    assert never.refusal is not None
    assert never.refusal.reason == "PreemptionNever"
    assert "preemptionPolicy of pod default/v is Never" in never.refusal.message


def test_a_pod_stays_whose_claim_other_gated_pods_hold():
    """It would need devices again for pods that are not placed with what is wanted."""
    there = [*running("a", "gpu-0"), *running("b", "gpu-1", priority=100)]
    assert not sharing(*there, others=(pod("v", "a", priority=10),), also=1).fits
    more = [*there[:2], *running("b", "gpu-1")]
    assert names(sharing(*more, others=(pod("v", "a", priority=-5),), also=1)) == ["b"]
