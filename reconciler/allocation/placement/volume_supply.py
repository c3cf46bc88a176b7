"""The PersistentVolumes that pods which are placed together compete for. Source: VOL-11, FIT-11."""

from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from kernels.choosing import Spans, leading
from kernels.matching import Supply
from kernels.types import Codes, Mask, Rows
from reconciler.allocation.placement.pod_volumes import volumes_of
from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.storage import SELECTED_NODE, PersistentVolumeClaim, StorageClass
from reconciler.errors import Rejected
from reconciler.state.nodes.table import Nodes


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
    users = Counter(key for claims in waiting.values() for key in claims)
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
    for claim, class_ in volumes_of(pod, nodes.volumes.objects).delayed:
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
