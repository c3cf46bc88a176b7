"""The tests that a node must pass for a pod, and the counters of pods that they read.

One pod is tested on all nodes at once. Several pods share the counters, so that they can be placed together.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence

import numpy as np
from msgspec import Struct, field

from kernels.domains import Counter, Rule
from kernels.types import Amounts, Codes, Mask
from reconciler.api.objects import storage
from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.selectors import NodeSelector
from reconciler.state.nodes.room import DeviceShare, Wanted, demand
from reconciler.state.nodes.table import Nodes
from reconciler.state.on_demand import KindsOnDemand
from reconciler.state.volumes.objects import StorageObjects, claims_named, plugin_of


class Test(Struct, frozen=True, eq=False):
    """One test of all nodes."""

    plugin: str
    """The filter of kube-scheduler that makes the same test"""
    reason: str
    """Says of nodes that fail what they are like: `with untolerated taint`"""
    passed: Mask | Rule
    """(N,) nodes that pass by row, or a rule over counters"""
    remedy: str = ""
    """What helps; empty if the reason says it"""
    by_pods: bool = False
    """Whether other pods decide it"""
    resource: str = ""
    """The resource of which nodes that fail have too little, if it is one"""


def by_node(numbers: Amounts) -> Counter:
    """A counter of which every node is a domain. numbers (N,)"""
    return Counter(np.arange(1, len(numbers) + 1, dtype=np.int32), np.concatenate([[0], numbers]))


class Counters(Struct):
    """Counters of pods by domain, each made once. `but` are pods that do not count."""

    nodes: Nodes
    but: Collection[ObjectKey]
    made: list[Counter] = field(default_factory=list)
    _takes: list[Callable[[Pod], bool]] = field(default_factory=list)
    _places: dict[Hashable, int] = field(default_factory=dict)

    def get(self, key: Hashable, make: Callable[[], Counter], takes: Callable[[Pod], bool]) -> int:
        """The position of a counter. `takes` says whether a pod that is put on a node counts."""
        at = self._places.get(key)
        if at is None:
            at = self._places[key] = len(self.made)
            self.made.append(make())
            self._takes.append(takes)
        return at

    def adds(self, pod: Pod) -> tuple[int, ...]:
        """The counters in which a pod counts."""
        return tuple(at for at, takes in enumerate(self._takes) if takes(pod))

    @property
    def codes(self) -> list[Codes]:
        """The domains of the nodes, counter by counter."""
        return [one.codes for one in self.made]

    @property
    def counts(self) -> list[Amounts]:
        """The counts of the domains, counter by counter. Callers must not change them."""
        return [one.counts for one in self.made]

    def with_pods(self, pods: Iterable[Pod], row: int) -> list[Amounts]:
        """The counts as if these pods were on a node, too."""
        counts = [one.counts.copy() for one in self.made]
        for pod in pods:
            for at in self.adds(pod):
                if self.made[at].counts_at(row):
                    counts[at][self.made[at].codes[row]] += 1
        return counts


class PodQuestion(Struct, frozen=True, eq=False):
    """A pod to be placed."""

    pod: Pod
    nodes: Nodes
    counters: Counters
    held: Sequence[NodeSelector] = ()
    """Node selectors of its allocated claims"""
    waived: frozenset[str] = frozenset()
    """Resources that a node need not offer"""
    claimed: tuple[str, ...] = ()
    """Those of them for which kube-scheduler makes a claim where no device plugin serves them"""
    supposed: bool = True
    """Whether nodes without a Node object may be used"""
    by_resource: bool = False
    """Whether room is one test for each resource, to say which is short. One for all is faster"""
    fellows: Collection[Pod] = ()
    """Pods that may be placed before it: what they require counts, too"""
    partners: Collection[ObjectKey] = ()
    """Pods that are placed together with it: a volume that it uses with them need not be where they are"""
    share: DeviceShare | None = None
    """What it takes for the devices of its allocated claims"""
    taken: str = ""
    """Such a claim that only one pod may use, and that another one uses (NAR-4)"""

    @property
    def wanted(self) -> Wanted:
        """What it takes of its node."""
        return demand(self.pod, self.share)


def nodes_passing(test: Test, counters: Counters) -> Mask:
    """(N,) the nodes that pass a test."""
    if isinstance(test.passed, np.ndarray):
        return test.passed
    return test.passed.allows(counters.codes, counters.counts)


RESTRICTIONS, LIMITS = "VolumeRestrictions", "NodeVolumeLimits"
BINDING, ZONES = "VolumeBinding", "VolumeZone"
_LOST = "Lost"
_NAMED = (
    *("PersistentVolumeClaim", "PersistentVolume", "StorageClass"),
    *("CSIDriver", "CSINode", "VolumeAttachment"),
)
"""Kinds that every pod with a claim of a volume needs"""
_UNBOUND = "CSIStorageCapacity"
"""The kind that a pod needs whose volume is not made yet"""


class Problem(Struct, frozen=True):
    """Why a pod cannot run anywhere, in the words of a test."""

    reason: str
    remedy: str
    plugins: tuple[str, ...]
    """The filters of kube-scheduler that refuse it"""


class PodVolumes(Struct):
    """The volumes of one pod, sorted by what must be tested."""

    problems: list[Problem] = field(default_factory=list)
    bound: list[tuple[storage.PersistentVolumeClaim, storage.PersistentVolume]] = field(default_factory=list)
    """Claims that have their volume"""
    delayed: list[tuple[storage.PersistentVolumeClaim, storage.StorageClass]] = field(default_factory=list)
    """Claims that get a volume once the pod has a node, smallest first"""
    zoned: list[storage.PersistentVolume] = field(default_factory=list)
    """Volumes whose labels may name zones"""
    exclusive: list[storage.PersistentVolumeClaim] = field(default_factory=list)
    """Claims that one pod at a time may use"""


def require_storage(pod: Pod, on_demand: KindsOnDemand, objects: StorageObjects) -> None:
    """Raise Unlisted if storage objects that the volumes of a pod need are not listed."""
    if any(True for _ in claims_named(pod)):
        on_demand.require_all(_NAMED, "a volume of the pod")
        if _volumes_to_make(pod, objects):
            on_demand.require(_UNBOUND, "a volume of the pod that is not made yet")
    elif any(plugin_of(volume) is not None for volume in pod.spec.volumes):
        on_demand.require_all(_NAMED, "a disk of the pod")


def volumes_of(pod: Pod, objects: StorageObjects) -> PodVolumes:
    """Look up the volumes of a pod."""
    found = PodVolumes()
    for volume, key in claims_named(pod):
        ephemeral = volume.ephemeral is not None
        claim = objects.claim_of(pod, volume)
        if claim is None:
            found.problems.append(_missing(str(key), ephemeral=ephemeral))
        else:
            found.problems += _problems(pod, volume, claim)
            if not ephemeral:
                found.problems += _zones(claim, objects, found)
                if storage.READ_WRITE_ONCE_POD in claim.spec.access_modes:
                    found.exclusive.append(claim)
            found.problems += _binding(claim, objects, found)
    found.delayed.sort(key=lambda one: one[0].requested.nanos if one[0].requested is not None else 0)
    return found


def _volumes_to_make(pod: Pod, objects: StorageObjects) -> bool:
    claims = [objects.claim_of(pod, volume) for volume, _ in claims_named(pod)]
    return any(claim is not None and not claim.spec.volume_name for claim in claims)


def _missing(key: str, *, ephemeral: bool) -> Problem:
    reason = f"while PersistentVolumeClaim {key} does not exist"
    if ephemeral:
        return Problem(reason, f"wait until the control plane creates claim {key}", (LIMITS, BINDING))
    return Problem(reason, f"create claim {key}", (RESTRICTIONS, LIMITS, BINDING, ZONES))


def _problems(pod: Pod, volume: storage.Volume, claim: storage.PersistentVolumeClaim) -> Iterator[Problem]:
    """What is wrong with a claim itself."""
    what = f"PersistentVolumeClaim {claim.key}"
    if claim.status.phase == _LOST:
        yield Problem(f"while {what} has lost its volume", f"recreate claim {claim.key}", (BINDING,))
    if claim.metadata.deletion_timestamp is not None:
        yield Problem(f"while {what} is being deleted", f"recreate claim {claim.key}", (BINDING,))
    if volume.ephemeral is not None and not _owned(claim, pod):
        remedy = f"delete claim {claim.key}, or rename volume {volume.name}"
        yield Problem(f"while {what} belongs to no volume of the pod", remedy, (LIMITS, BINDING))


def _owned(claim: storage.PersistentVolumeClaim, pod: Pod) -> bool:
    return any(
        owner.controller and owner.uid == pod.metadata.uid for owner in claim.metadata.owner_references
    )


def _zones(
    claim: storage.PersistentVolumeClaim, objects: StorageObjects, found: PodVolumes
) -> Iterator[Problem]:
    """What VolumeZone looks at; claims that wait for a pod have no zone yet."""
    if claim.spec.volume_name:
        volume = objects.volumes.get(claim.spec.volume_name)
        if volume is None:
            yield _no_volume(claim, (ZONES,))
        else:
            found.zoned.append(volume)
        return
    class_ = objects.classes.get(claim.storage_class)
    if class_ is None or class_.volume_binding_mode != storage.FIRST_CONSUMER:
        yield _unbound(claim, class_, (ZONES,))


def _binding(
    claim: storage.PersistentVolumeClaim, objects: StorageObjects, found: PodVolumes
) -> Iterator[Problem]:
    """What VolumeBinding looks at."""
    if claim.bound:
        volume = objects.volumes.get(claim.spec.volume_name)
        if volume is None:
            yield _no_volume(claim, (BINDING,))
        else:
            found.bound.append((claim, volume))
        return
    class_ = objects.classes.get(claim.storage_class)
    waits = class_ is not None and class_.volume_binding_mode == storage.FIRST_CONSUMER
    if class_ is None or not waits or claim.spec.volume_name:
        yield _unbound(claim, class_, (BINDING,))
    else:
        found.delayed.append((claim, class_))


def _no_volume(claim: storage.PersistentVolumeClaim, plugins: tuple[str, ...]) -> Problem:
    name = claim.spec.volume_name
    reason = f"while PersistentVolume {name} of claim {claim.key} does not exist"
    return Problem(reason, f"restore PersistentVolume {name}, or recreate claim {claim.key}", plugins)


def _unbound(
    claim: storage.PersistentVolumeClaim, class_: storage.StorageClass | None, plugins: tuple[str, ...]
) -> Problem:
    reason = f"while PersistentVolumeClaim {claim.key} is not bound"
    if claim.spec.volume_name:
        remedy = f"wait until claim {claim.key} is bound to {claim.spec.volume_name}"
    elif class_ is None and claim.storage_class:
        remedy = f"create StorageClass {claim.storage_class}"
    elif class_ is None:
        remedy = f"set storageClassName of claim {claim.key}, or create a volume for it"
    else:
        remedy = f"wait until StorageClass {claim.storage_class}, which binds immediately, provides a volume"
    return Problem(reason, remedy, plugins)
