"""Members of a gang that mind the volumes of one another."""

from collections.abc import Callable
from typing import Any

from reconciler.allocation.dra.budget import UNLIMITED
from reconciler.allocation.gangs.deciding import decide_gang
from reconciler.allocation.gangs.kinds import GangGranted, GangQuestion, GangUnsatisfied, Member
from reconciler.api.objects.changes import Changed
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Pod
from reconciler.api.objects.gangs import GangKey, GangSource
from reconciler.api.versions.reading import read
from reconciler.state.nodes.table import Nodes
from reconciler.state.trial import Trial
from tests.tools.builders import Object, claim, device_class, gpu_slice, request, store
from tests.tools.scenario import asking, machine, sized
from tests.tools.volume_scenarios import (
    NO_PROVISIONER,
    csi_node,
    ephemeral,
    mounting,
    storage_class,
    volume,
    volume_claim,
)

LOCAL = storage_class("local", NO_PROVISIONER)
GANG = GangKey("default", GangSource.ANNOTATION, "g")


def world(*storage: Object) -> Trial:
    """Nodes a and b with 8 devices each."""
    machines = [sized(machine(name), cpu="64") for name in "ab"]
    nodes = Nodes()
    for one in [*machines, *storage]:
        nodes.note(Changed(one["kind"], read(one)))
    supply = [gpu_slice(name, 8) for name in "ab"]
    return Trial(store(device_class(), *machines, *supply), nodes, supposed=False)


def asked(pods: int, spec: Callable[[int], Object]) -> GangQuestion:
    members = []
    for n in range(pods):
        pod = Pod.model_validate(asking(f"p{n}", f"p{n}", cpu="1", **spec(n)))
        members.append(Member(pod, (ResourceClaim.model_validate(claim(f"p{n}", request())),)))
    return GangQuestion(GANG, tuple(members), pods)


def nodes_of(trial: Trial, question: GangQuestion) -> Any:
    """The nodes of the seats, or how many members fit."""
    outcome = decide_gang(question, trial, steps=1_000, budget=UNLIMITED)
    return [seat.node for seat in outcome.seats] if isinstance(outcome, GangGranted) else outcome.fits


def claims(number: int, class_: str = "local") -> list[Object]:
    return [volume_claim(f"c{n}", class_) for n in range(number)]


def test_members_with_ephemeral_volumes_need_one_each():
    pods = asked(2, lambda _: mounting(scratch=ephemeral("local")))
    mine = [volume_claim(f"p{n}-scratch", "local") for n in range(2)]
    for one, member in zip(mine, pods.members, strict=True):
        owner = {"apiVersion": "v1", "kind": "Pod", "name": member.pod.key.name, "controller": True}
        one["metadata"]["ownerReferences"] = [{**owner, "uid": member.pod.metadata.uid}]
    volumes = [volume("v0", "a", "local"), volume("v1", "b", "local")]
    assert nodes_of(world(LOCAL, *mine, *volumes), pods) == ["a", "b"]
    bound = {**mine[0], "spec": {**mine[0]["spec"], "volumeName": "v1"}}
    bound["metadata"] = {**mine[0]["metadata"], "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
    taken = volume("v1", "b", "local", of="p0-scratch")
    assert nodes_of(world(LOCAL, bound, mine[1], volumes[0], taken), pods) == ["b", "a"]


def test_disks_limits_and_claims_for_one_pod():
    disk = {"volumes": [{"name": "d", "gcePersistentDisk": {"pdName": "x"}}]}
    assert nodes_of(world(), asked(2, lambda _: disk)) == ["a", "b"]
    limits = [csi_node("a", 1), csi_node("b", 2)]
    question = asked(3, lambda n: mounting(f"c{n}"))
    assert nodes_of(world(storage_class(), *claims(3, "wait"), *limits), question) == ["a", "b", "b"]
    alone = volume_claim("c0", volume="v", accessModes=["ReadWriteOncePod"])
    assert nodes_of(world(alone, volume("v", of="c0")), asked(2, lambda _: mounting("c0"))) == 1


def test_a_refusal_says_that_volumes_keep_the_pods_apart():
    """Nothing is short for any pod alone."""
    storage = [storage_class(), *claims(3, "wait"), csi_node("a", 1), csi_node("b", 1)]
    outcome = decide_gang(
        asked(3, lambda n: mounting(f"c{n}")), world(*storage), steps=1_000, budget=UNLIMITED
    )
    assert isinstance(outcome, GangUnsatisfied)
    assert outcome.message == (
        "2 of 3 pods fit together at most; 3 are needed. "
        "Nodes that have pods of the gang exclude others of it by volumes"
    )


def test_a_claim_in_common_that_is_not_bound_yet():
    """Its volume is made for the first member; where it can be used is not known before."""
    spread = asked(10, lambda _: mounting("c0"))
    many = ["a"] * 8 + ["b"] * 2
    assert nodes_of(world(storage_class(), *claims(1, "wait")), spread) == many
    assert nodes_of(world(LOCAL, *claims(1), volume("v", "", "local")), spread) == many
    assert nodes_of(world(LOCAL, *claims(1), volume("v", "a", "local")), spread) == 8
    pair = asked(2, lambda _: mounting("c0"))
    assert nodes_of(world(LOCAL, *claims(1), volume("v", "b", "local")), pair) == ["b", "b"]
    kept = volume("v", "b", "local", of="c0")
    assert nodes_of(world(LOCAL, *claims(1), kept), pair) == ["b", "b"]
