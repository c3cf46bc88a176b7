"""Volumes: the filters of kube-scheduler that look at them, and the PersistentVolumes that pods compete for.

Source: rules VOL-1 to VOL-11, FIT-11.
"""

from collections import Counter as Count
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from kernels.domains import NONE, Counter, Spans, Vacant, leading
from kernels.matching import Supply
from kernels.types import Amounts, Codes, Mask, Rows
from reconciler.allocation.placement import pod_tests
from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.storage import (
    SELECTED_NODE,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from reconciler.errors import Rejected
from reconciler.state.nodes.table import Nodes
from reconciler.state.volumes import objects
from reconciler.state.volumes.uses import UNLIMITED, Disk, Use, excluding, uses_of

_TOPOLOGY = {
    objects.BETA_ZONE: objects.ZONE,
    objects.BETA_REGION: objects.REGION,
    objects.ZONE: objects.ZONE,
    objects.REGION: objects.REGION,
}
"""Labels of zones and regions, and the label of a node that counts where a node lacks the first"""


def volumes(question: pod_tests.PodQuestion) -> Iterator[pod_tests.Test]:
    """Volumes: shared disks, attach limits, node affinity and topology, zones."""
    pod = question.pod
    if not pod.spec.volumes:
        return
    for disk in dict.fromkeys(excluding(pod)):
        yield pod_tests.Test(
            pod_tests.RESTRICTIONS,
            f"with a pod that uses {disk}",
            Vacant(_disk_counter(question, disk)),
            f"free {disk} on a node",
            by_pods=True,
        )
    if not question.nodes.volumes.considered:
        return
    found = pod_tests.volumes_of(pod, question.nodes.volumes.objects)
    for problem in found.problems:
        for plugin in problem.plugins:
            yield pod_tests.Test(plugin, problem.reason, ~question.nodes.every(), problem.remedy)
    yield from _exclusive(question, found)
    yield from _limits(question)
    yield from _bound(question, found)
    yield from _delayed(question, found)
    yield from _zones(question, found)


def minds_other_pods(pod: Pod, nodes: Nodes) -> bool:
    """Whether pods that come to nodes may exclude some for the volumes of a pod."""
    if not pod.spec.volumes:
        return False
    if any(excluding(pod)):
        return True
    if not nodes.volumes.considered:
        return False
    found, attached = pod_tests.volumes_of(pod, nodes.volumes.objects), nodes.volumes.attached
    drivers = {volume.driver for volume in attached.volumes_of(pod)}
    limited = any((attached.limit(driver) != UNLIMITED).any() for driver in drivers)
    return limited or bool(found.delayed or found.exclusive)


def _exclusive(question: pod_tests.PodQuestion, found: pod_tests.PodVolumes) -> Iterator[pod_tests.Test]:
    for claim in found.exclusive:
        yield pod_tests.Test(
            pod_tests.RESTRICTIONS,
            f"while another pod uses {claim.key}, a claim for one pod",
            Vacant(_user_counter(question, claim)),
            f"wait until the other pod that uses {claim.key} ends",
            by_pods=True,
        )


def _limits(question: pod_tests.PodQuestion) -> Iterator[pod_tests.Test]:
    attached, but = question.nodes.volumes.attached, question.counters.but
    own = attached.volumes_of(question.pod)
    for driver in sorted({volume.driver for volume in own}):
        known = question.nodes.volumes.objects.drivers.get(driver)
        if known is not None and known.spec.prevent_pod_scheduling_if_missing:
            yield pod_tests.Test(
                pod_tests.LIMITS,
                f"without the CSI driver {driver}, which preventPodSchedulingIfMissing requires",
                _installed(question, driver),
                f"wait until {driver} runs on a node, or add nodes that have it",
            )
        limit = attached.limit(driver)
        if not (limit != UNLIMITED).any():
            continue
        new = np.zeros(len(limit), dtype=np.int64)
        for volume in own:
            if volume.driver == driver:
                new += attached.without(volume, but=but)
        full = (limit != UNLIMITED) & (new > 0) & (attached.count(driver, but=but) + new > limit)
        yield pod_tests.Test(
            pod_tests.LIMITS,
            f"with no more room for volumes of {driver}",
            ~full,
            f"detach volumes of {driver} from a node, or add nodes",
            by_pods=True,
        )


def _installed(question: pod_tests.PodQuestion, driver: str) -> Mask:
    """(N,) the nodes on which a CSI driver has registered."""
    nodes = question.nodes
    found = ~nodes.every()
    for csi_node in nodes.volumes.objects.csi_nodes.values():
        row = nodes.row_of(csi_node.key.name)
        if row is not None and any(one.name == driver for one in csi_node.spec.drivers):
            found[row] = True
    return found


def _bound(question: pod_tests.PodQuestion, found: pod_tests.PodVolumes) -> Iterator[pod_tests.Test]:
    for claim, volume in found.bound:
        yield pod_tests.Test(
            pod_tests.BINDING,
            f"outside the node affinity of the volume of {claim.key}",
            _usable(question, volume),
            f"add nodes that can use PersistentVolume {volume.key}",
        )


def _usable(question: pod_tests.PodQuestion, volume: PersistentVolume) -> Mask:
    """(N,) the nodes that can use a volume."""
    nodes = question.nodes
    plugin = objects.plugin_of(volume.spec)
    affinity = volume.spec.node_affinity
    selector = affinity.required if affinity is not None else None
    found = nodes.every()
    if selector is not None:
        found = np.zeros(len(found), dtype=np.bool_)
        found[nodes.usable(selector)] = True
    if plugin is None:
        return found
    translated = objects.translated_affinity(volume, plugin)
    moved = nodes.every() if objects.volume_id(volume) is not None else ~nodes.every()
    if translated is not None and moved.any():
        moved = np.zeros(len(found), dtype=np.bool_)
        moved[nodes.usable(translated)] = True
    for csi_node in nodes.volumes.objects.csi_nodes.values():
        row = nodes.row_of(csi_node.key.name)
        if row is not None and objects.migrated(csi_node, plugin):
            found[row] = moved[row]
    return found


def _delayed(question: pod_tests.PodQuestion, found: pod_tests.PodVolumes) -> Iterator[pod_tests.Test]:
    available, but = question.nodes.volumes.available, question.counters.but
    most, taken = len(found.delayed), dict[str, list[Codes]]()
    named: set[ObjectKey] = set()
    for claim, class_ in found.delayed:
        if promised := question.nodes.volumes.promised.node_of(claim.key, but=but):
            yield pod_tests.Test(
                pod_tests.BINDING,
                f"while {claim.key} gets its volume on node {promised}, for another pod",
                _only(question, promised) | _with_partners(question, claim, class_),
                f"wait until {claim.key} is bound",
                by_pods=True,
            )
            continue
        if (selected := claim.metadata.annotations.get(SELECTED_NODE)) is not None:
            yield pod_tests.Test(
                pod_tests.BINDING,
                f"while the volume of {claim.key} is made for node {selected}",
                _only(question, selected),
                f"wait until the volume of {claim.key} is made",
            )
            matched = ~question.nodes.every()
        else:
            earlier = taken.setdefault(claim.storage_class, [])
            again = claim.key in named
            named.add(claim.key)
            try:
                numbers = available.matching(claim, most=most, taken=earlier, again=again, but=but)
            except Rejected as exc:
                yield pod_tests.Test(
                    pod_tests.BINDING,
                    f"while the selector of {claim.key} is invalid",
                    ~question.nodes.every(),
                    f"correct it: {exc}",
                )
                continue
            earlier.append(numbers)
            matched = numbers != NONE
        yield pod_tests.Test(
            pod_tests.BINDING,
            f"without a volume for {claim.key}",
            matched | available.provisioned(class_),
            f"create PersistentVolumes of class {class_.key} for more nodes, or widen its allowedTopologies",
        )
        yield pod_tests.Test(
            pod_tests.BINDING,
            f"without room for the volume of {claim.key}",
            matched | available.roomy(class_, claim),
            f"add storage of class {class_.key}",
        )


def _with_partners(
    question: pod_tests.PodQuestion, claim: PersistentVolumeClaim, class_: StorageClass
) -> Mask:
    """(N,) the nodes that can use the volume of a claim that pods have which are placed together.

    Where a volume that has to be made can be used is not known: wherever it could be made, presumably.
    """
    volumes, but = question.nodes.volumes, question.counters.but
    if volumes.promised.node_of(claim.key, but={*but, *question.partners}):
        return ~question.nodes.every()
    try:
        existing = volumes.available.promised_to(claim, but=but)
    except Rejected:
        return ~question.nodes.every()
    return volumes.available.provisioned(class_) if existing is None else existing


def _only(question: pod_tests.PodQuestion, node: str) -> Mask:
    found = ~question.nodes.every()
    if (row := question.nodes.row_of(node)) is not None:
        found[row] = True
    return found


def _zones(question: pod_tests.PodQuestion, found: pod_tests.PodVolumes) -> Iterator[pod_tests.Test]:
    nodes = question.nodes
    for volume in found.zoned:
        for key, other in _TOPOLOGY.items():
            values = _zone_values(volume.metadata.labels.get(key, ""))
            if not values:
                continue
            own = nodes.labels.test(key, lambda value: value is not None)
            inside = np.where(
                own,
                nodes.labels.test(key, lambda value, values=values: value in values),  # type: ignore[misc]
                nodes.labels.test(other, lambda value, values=values: value in values),  # type: ignore[misc]
            )
            bare = nodes.every()
            for one in _TOPOLOGY:
                bare = bare & nodes.labels.test(one, lambda value: value is None)
            yield pod_tests.Test(
                pod_tests.ZONES,
                f"outside {key} {', '.join(sorted(values))} of PersistentVolume {volume.key}",
                inside | bare,
                f"add nodes in {', '.join(sorted(values))}",
            )


def _zone_values(label: str) -> frozenset[str]:
    """The zones in a label of a volume; none if one is empty: kube-scheduler ignores the label."""
    values = [one.strip() for one in label.split(objects.SEPARATOR)]
    return frozenset(values) if all(values) else frozenset()


def _disk_counter(question: pod_tests.PodQuestion, disk: Disk) -> int:
    return question.counters.get(
        disk, lambda: pod_tests.by_node(_users(question, disk)), lambda pod: disk in uses_of(pod)
    )


def _user_counter(question: pod_tests.PodQuestion, claim: PersistentVolumeClaim) -> int:
    def make() -> Counter:
        using = _users(question, claim.key)
        codes: Codes = np.ones(len(using), dtype=np.int32)  # the cluster is one domain
        return Counter(codes, np.array([0, using.sum()], dtype=np.int64))

    def takes(pod: Pod) -> bool:
        return claim.key in uses_of(pod)

    return question.counters.get(claim.key, make, takes)


def _users(question: pod_tests.PodQuestion, use: Use) -> Amounts:
    """(N,) how many pods use a claim or disk on each node."""
    nodes = question.nodes
    found = np.zeros(len(nodes.every()), dtype=np.int64)
    for _, node in nodes.volumes.uses.users(use, but=question.counters.but):
        row = nodes.row_of(node)
        if row is not None:
            found[row] += 1
    return found


class VolumeSupply(NamedTuple):
    """Volumes as things, claims as demands."""

    supply: Supply
    needs: Mapping[ObjectKey, tuple[int, ...]]
    """Pod -> the types of its claims"""


class _Type(NamedTuple):
    """Claims that are alike, or one claim that several pods use."""

    suits: Mask
    """(V,) volumes of the class"""
    spared: Mask
    """(N,) rows where a volume can be made"""
    joint: bool


class _Class:
    """The volumes of a class, and the types of claims for them."""

    def __init__(self, affinity: Codes, places: Spans) -> None:
        self.affinity, self.places = affinity, places
        self.types: dict[Hashable, _Type] = {}
        self.claims = 0

    def note(self, claim: ObjectKey, found: _Type) -> Hashable:
        """Count a claim; return the key of its type."""
        key = claim if found.joint else (found.suits.tobytes(), found.spared.tobytes())
        self.types.setdefault(key, found)
        self.claims += 1
        return key

    def volumes(self) -> tuple[Mask, Rows, Rows]:
        """(T, V) which volumes suit each type, and where each is: (E,) a volume and (E,) a row.

        Of alike volumes at the same nodes, no more are kept than there are claims.
        """
        suits = np.stack([one.suits for one in self.types.values()])
        numbers = np.flatnonzero(suits.any(axis=0))
        alike = np.unique(
            np.concatenate([self.affinity[numbers][None], suits[:, numbers]]), axis=1, return_inverse=True
        )[1]
        numbers = numbers[leading(alike.reshape(-1).astype(np.int32), self.claims)]
        things, rows = self.places.of(self.affinity[numbers])
        return suits[:, numbers], things, rows


def volume_supply(nodes: Nodes, pods: Sequence[Pod], order: tuple[str, ...]) -> VolumeSupply:
    """The volumes for which these pods compete, which do not count themselves. N nodes, in this order.

    A claim takes part if it has to take a volume that exists, on some node at least. One that several of the
    pods use takes one volume that all of them can use.
    """
    if not nodes.volumes.considered:
        return VolumeSupply(Supply.none(len(order)), {})
    but = tuple(pod.key for pod in pods)
    waiting = {pod.key: dict(_waiting(nodes, pod, but)) for pod in pods}
    users = Count(key for claims in waiting.values() for key in claims)
    classes: dict[str, _Class] = {}
    keys: dict[ObjectKey, list[tuple[str, Hashable]]] = defaultdict(list)
    for pod, claims in waiting.items():
        for key, (claim, class_) in claims.items():
            noted = _note(classes, nodes, claim, class_, but, joint=users[key] > 1)
            if noted is not None:
                keys[pod].append((claim.storage_class, noted))
    number = {
        (name, key): at
        for at, (name, key) in enumerate((name, key) for name, one in classes.items() for key in one.types)
    }
    needs = {pod: tuple(number[key] for key in found) for pod, found in keys.items()}
    return VolumeSupply(_joined(list(classes.values()), nodes, order), needs)


def _waiting(
    nodes: Nodes, pod: Pod, but: Collection[ObjectKey]
) -> Iterator[tuple[ObjectKey, tuple[PersistentVolumeClaim, StorageClass]]]:
    """The claims of a pod that may get any volume."""
    if not pod.spec.volumes:
        return
    for claim, class_ in pod_tests.volumes_of(pod, nodes.volumes.objects).delayed:
        made = SELECTED_NODE in claim.metadata.annotations
        if not made and not nodes.volumes.promised.node_of(claim.key, but=but):
            yield claim.key, (claim, class_)


def _note(
    classes: dict[str, _Class],
    nodes: Nodes,
    claim: PersistentVolumeClaim,
    class_: StorageClass,
    but: Collection[ObjectKey],
    *,
    joint: bool,
) -> Hashable | None:
    """The type of a claim; None if it competes for nothing."""
    available = nodes.volumes.available
    spared = available.provisioned(class_) & available.roomy(class_, claim)
    try:
        choices = None if spared.all() else available.choices(claim, but=but)
    except Rejected:
        return None  # the pod suits no node
    if choices is None:
        return None
    suits, affinity, places = choices
    of_class = classes.setdefault(claim.storage_class, _Class(affinity, places))
    return of_class.note(claim.key, _Type(suits, spared, joint))


def _joined(classes: Sequence[_Class], nodes: Nodes, order: tuple[str, ...]) -> Supply:
    types = [one for of_class in classes for one in of_class.types.values()]
    if not types:
        return Supply.none(len(order))
    found = [one.volumes() for one in classes]
    suits = np.zeros((len(types), sum(part.shape[1] for part, _, _ in found)), dtype=np.bool_)
    things, rows = [], []
    first_type = first_thing = 0
    for part, of_things, at in found:
        suits[first_type : first_type + len(part), first_thing : first_thing + part.shape[1]] = part
        things.append(of_things + first_thing)
        rows.append(at)
        first_type, first_thing = first_type + len(part), first_thing + part.shape[1]
    place_of = np.full(len(nodes.every()), -1, dtype=np.intp)
    place_of[nodes.rows(order)] = np.arange(len(order))
    places = place_of[np.concatenate(rows)]
    known = places >= 0
    spared = nodes.in_order(np.stack([one.spared for one in types]).T, order).T
    joint = tuple(one.joint for one in types)
    return Supply(suits, np.concatenate(things)[known], places[known], spared, joint)
