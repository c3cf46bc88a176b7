"""Where unbound claims of a class can get a volume: volumes that exist, and room for new ones.

Source: VOL-7, VOL-8. N rows of nodes, as the table of nodes numbers them.
"""

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple
from weakref import ref

import numpy as np
from msgspec import Struct

from kernels.domains import NONE, Spans, first_at_each, leading
from kernels.types import Amounts, Codes, Mask, Rows
from reconciler.api.objects import storage
from reconciler.api.objects.changes import Change
from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.quantity import INT64_MAX
from reconciler.api.objects.selectors import NodeSelector, Selector
from reconciler.errors import Rejected
from reconciler.state.volumes.objects import StorageObjects
from reconciler.state.volumes.uses import Attached, Promised, Uses

if TYPE_CHECKING:  # they have what is here
    from reconciler.state.nodes.table import Nodes

FILESYSTEM = "Filesystem"


class _Kind(NamedTuple):
    """What of a volume a claim must match."""

    mode: str
    attributes: str
    access: frozenset[str]


class _Group(Struct, frozen=True):
    """Volumes of one class that are free, smallest first, and where they can be used."""

    volumes: tuple[storage.PersistentVolume, ...]
    sizes: tuple[int, ...]
    """Billionths of bytes"""
    kinds: tuple[_Kind, ...]
    kind: Codes
    """(V,) positions in `kinds`"""
    affinity: Codes
    """(V,) positions in `places`"""
    places: Spans
    """Rows where each distinct node affinity can be used"""
    reserved: dict[tuple[str, str], tuple[storage.PersistentVolume, ...]]
    """Namespace and name of a claim -> the volumes that are kept for it"""
    groups_at: dict[int, list[int]]
    """Row -> positions in `places` that have it"""


class Available:
    """Tables of classes, made when a decision asks, until something in them changes."""

    def __init__(self, objects: StorageObjects, nodes: "Nodes", promised: Promised) -> None:
        self._objects = objects
        self._promised = promised
        self.follow(nodes)
        self._groups: dict[str, tuple[tuple[int, int], _Group]] = {}
        self._room: dict[str, tuple[tuple[int, int], tuple[Spans, Amounts]]] = {}

    def follow(self, nodes: "Nodes") -> None:
        """Use the labels of these nodes, which have this: a fork that is dropped must not be a cycle, or all
        pods that it knows stay until the next full collection.
        """
        self._nodes_of = ref(nodes)

    @property
    def _nodes(self) -> "Nodes":
        found = self._nodes_of()
        assert found is not None
        return found

    def matching(
        self,
        claim: storage.PersistentVolumeClaim,
        *,
        most: int,
        taken: Sequence[Codes],
        again: bool,
        but: Collection[ObjectKey],
    ) -> Codes:
        """(N,) the volume that kube-scheduler would bind on each node, as a number, or NONE. It takes one
        that is kept for the claim, else the smallest that suits. Raises Rejected for an invalid selector.

        `most` is the number of claims of the pod, `taken` what earlier ones of the same class got. With
        `again` the pod names the claim a second time: kube-scheduler looks for another volume then. Volumes
        that other pods than `but` will get are gone.
        """
        group = self._group(claim.storage_class)
        size = len(self._nodes.every())
        kept = [one for one in group.reserved.get(claim.key, ()) if _suits(one, claim)]
        if not kept:
            return self._smallest(group, claim, most, taken, but)
        found = np.full(size, NONE, dtype=np.int32)
        places = self._places(kept[0])
        if again:
            found[places] = self._smallest(group, claim, most, taken, but)[places]
        else:
            found[places] = len(group.volumes)
        return found

    def choices(
        self, claim: storage.PersistentVolumeClaim, *, but: Collection[ObjectKey]
    ) -> tuple[Mask, Codes, Spans] | None:
        """The volumes that a claim may compete for: (V,) those of its class that suit it and are not gone,
        (V,) the position of each in lists of rows, and these lists. V is the same for all claims of a class.

        None if a volume is kept for it. Raises Rejected for an invalid selector.
        """
        group = self._group(claim.storage_class)
        if any(_suits(one, claim) for one in group.reserved.get(claim.key, ())):
            return None
        return self._left(group, claim, but), group.affinity, group.places

    def _left(self, group: _Group, claim: storage.PersistentVolumeClaim, but: Collection[ObjectKey]) -> Mask:
        suiting = _suiting(group, claim)
        suiting[self._gone(group, claim.storage_class, but)] = False
        return suiting

    def _smallest(
        self,
        group: _Group,
        claim: storage.PersistentVolumeClaim,
        most: int,
        taken: Sequence[Codes],
        but: Collection[ObjectKey],
    ) -> Codes:
        size = len(self._nodes.every())
        numbers = np.flatnonzero(self._left(group, claim, but))
        numbers = numbers[leading(group.affinity[numbers], most)]
        which, places = group.places.of(group.affinity[numbers])
        return first_at_each(numbers[which].astype(np.int32), places, size, taken)

    def promised_to(self, claim: storage.PersistentVolumeClaim, *, but: Collection[ObjectKey]) -> Mask | None:
        """(N,) the nodes that can use the volume which kube-scheduler will bind to a claim for a pod that has
        a node; None if it will be made. Raises Rejected for an invalid selector.
        """
        group = self._group(claim.storage_class)
        found = [one for one in group.reserved.get(claim.key, ()) if _suits(one, claim)]
        if not found:
            number = self._promises(group, claim.storage_class, but).get(claim.key)
            if number is None:
                return None
            found = [group.volumes[number]]
        mask = np.zeros(len(self._nodes.every()), dtype=np.bool_)
        mask[self._places(found[0])] = True
        return mask

    def _gone(self, group: _Group, name: str, but: Collection[ObjectKey]) -> list[int]:
        """The volumes of a class that kube-scheduler will bind for pods that have a node."""
        return list(self._promises(group, name, but).values())

    def _promises(self, group: _Group, name: str, but: Collection[ObjectKey]) -> dict[ObjectKey, int]:
        """Claim -> the volume that kube-scheduler will bind to it for a pod that has a node."""
        found: dict[ObjectKey, int] = {}
        for claim, node in self._promised.claims(but=but):
            row = self._nodes.row_of(node)
            if claim.storage_class != name or claim.key in group.reserved or row is None:
                continue
            try:
                suiting = _suiting(group, claim)
            except Rejected:
                continue
            suiting[list(found.values())] = False
            firsts = (
                np.flatnonzero(suiting & (group.affinity == one))[:1].tolist()
                for one in group.groups_at.get(row, ())
            )
            first = min((number for of_place in firsts for number in of_place), default=None)
            if first is not None:
                found[claim.key] = first
        return found

    def provisioned(self, class_: storage.StorageClass) -> Mask:
        """(N,) the nodes for which a class makes volumes."""
        if class_.provisioner in ("", storage.NO_PROVISIONER):
            return np.zeros(len(self._nodes.every()), dtype=np.bool_)
        if not class_.allowed_topologies:
            return self._nodes.every()
        found = np.zeros(len(self._nodes.every()), dtype=np.bool_)
        for term in class_.allowed_topologies:
            if term.match_label_expressions:
                inside = self._nodes.every()
                for one in term.match_label_expressions:
                    rows = np.zeros(len(inside), dtype=np.bool_)
                    rows[self._nodes.labels.rows_with(one.key, one.values)] = True
                    inside &= rows
                found |= inside
        return found

    def roomy(self, class_: storage.StorageClass, claim: storage.PersistentVolumeClaim) -> Mask:
        """(N,) the nodes with enough room for the volume of a claim, as far as the driver reports it."""
        driver = self._objects.drivers.get(class_.provisioner)
        if claim.requested is None or driver is None or not driver.spec.storage_capacity:
            return self._nodes.every()
        places, limits = self._capacities(class_.key.name)
        enough = np.flatnonzero(limits >= min(claim.requested.integer, INT64_MAX))
        found = np.zeros(len(self._nodes.every()), dtype=np.bool_)
        found[places.of(enough)[1]] = True
        return found

    def _group(self, name: str) -> _Group:
        stamp = self._objects.volumes_serial[name], self._nodes.labels_serial
        known = self._groups.get(name)
        if known is None or known[0] != stamp:
            known = self._groups[name] = stamp, self._grouped(name)
        return known[1]

    def _grouped(self, name: str) -> _Group:
        volumes = self._objects.volumes_of.get(name, {}).values()
        free = [one for one in volumes if one.spec.claim_ref is None and _is_free(one)]
        free.sort(key=lambda one: (one.size.nanos, one.key.name))
        kinds: dict[_Kind, int] = {}
        selectors: dict[NodeSelector | None, int] = {}
        kind = [kinds.setdefault(_kind(one), len(kinds)) for one in free]
        affinity = [selectors.setdefault(_affinity(one), len(selectors)) for one in free]
        reserved: dict[tuple[str, str], tuple[storage.PersistentVolume, ...]] = {}
        for one in sorted(volumes, key=lambda one: one.key.name):
            if (ref := one.spec.claim_ref) is not None:
                of = ref.namespace, ref.name
                reserved[of] = (*reserved.get(of, ()), one)
        places = [self._rows(selector) for selector in selectors]
        groups_at: dict[int, list[int]] = {}
        for at, rows in enumerate(places):
            for row in rows.tolist():
                groups_at.setdefault(row, []).append(at)
        return _Group(
            tuple(free),
            tuple(one.size.nanos for one in free),
            tuple(kinds),
            np.array(kind, dtype=np.int32),
            np.array(affinity, dtype=np.int32),
            Spans.joined(places),
            reserved,
            groups_at,
        )

    def _places(self, volume: storage.PersistentVolume) -> Rows:
        return self._rows(_affinity(volume))

    def _rows(self, selector: NodeSelector | None) -> Rows:
        return np.flatnonzero(self._nodes.every()) if selector is None else self._nodes.usable(selector)

    def _capacities(self, name: str) -> tuple[Spans, Amounts]:
        """The rows of nodes that can use each capacity of a class, and (C,) the limit of each in bytes."""
        stamp = self._objects.capacities_serial[name], self._nodes.labels_serial
        known = self._room.get(name)
        if known is None or known[0] != stamp:
            found = list(self._objects.capacities_of.get(name, {}).values())
            places = Spans.joined([self._reaching(one) for one in found])
            limits = [-1 if one.limit is None else min(one.limit.integer, INT64_MAX) for one in found]
            known = self._room[name] = stamp, (places, np.array(limits, dtype=np.int64))
        return known[1]

    def _reaching(self, capacity: storage.CSIStorageCapacity) -> Rows:
        if capacity.node_topology is None:
            return np.zeros(0, dtype=np.intp)
        try:
            return self._nodes.selected(capacity.node_topology)
        except Rejected:
            return np.zeros(0, dtype=np.intp)


def _affinity(volume: storage.PersistentVolume) -> NodeSelector | None:
    return None if volume.spec.node_affinity is None else volume.spec.node_affinity.required


def _is_free(volume: storage.PersistentVolume) -> bool:
    return volume.status.phase == "Available" and volume.metadata.deletion_timestamp is None


def _kind(volume: storage.PersistentVolume) -> _Kind:
    spec = volume.spec
    attributes = spec.volume_attributes_class_name or ""
    return _Kind(spec.volume_mode or FILESYSTEM, attributes, frozenset(spec.access_modes))


def _matches(kind: _Kind, claim: storage.PersistentVolumeClaim) -> bool:
    return _alike(kind, claim) and kind.access.issuperset(claim.spec.access_modes)


def _alike(kind: _Kind, claim: storage.PersistentVolumeClaim) -> bool:
    wanted = claim.spec.volume_mode or FILESYSTEM, claim.spec.volume_attributes_class_name or ""
    return (kind.mode, kind.attributes) == wanted


def _suiting(group: _Group, claim: storage.PersistentVolumeClaim) -> Mask:
    """(V,) the volumes that a claim could have on some node. Raises Rejected for an invalid selector."""
    first = bisect_left(group.sizes, claim.requested.nanos if claim.requested is not None else 0)
    matches = np.array([_matches(kind, claim) for kind in group.kinds], dtype=np.bool_)
    suiting: Mask = matches[group.kind]
    suiting[:first] = False
    if claim.spec.selector is not None:
        suiting = suiting & _labelled(group.volumes, suiting, claim.spec.selector.parsed)
    return suiting


def _suits(volume: storage.PersistentVolume, claim: storage.PersistentVolumeClaim) -> bool:
    """Whether a volume that is kept for a claim can serve it."""
    enough = claim.requested is None or volume.size >= claim.requested
    alive = volume.metadata.deletion_timestamp is None
    return volume.belongs_to(claim) and enough and alive and _alike(_kind(volume), claim)


def _labelled(volumes: Sequence[storage.PersistentVolume], among: Mask, selector: Selector) -> Mask:
    found = among.copy()
    for at in np.flatnonzero(among).tolist():
        found[at] = selector.matches(volumes[at].metadata.labels)
    return found


class VolumeState:
    """Follows storage objects, nodes, and pods on nodes."""

    def __init__(self, nodes: "Nodes", rows: Mapping[str, int], *, complete: bool, considered: bool) -> None:
        """`rows` are those of `Attached`, `complete` is that of `StorageObjects`."""
        self.considered = considered
        """Whether storage objects decide where pods can run"""
        self.objects = StorageObjects(complete=complete)
        self.uses = Uses()
        self.attached = Attached(self.objects, self.uses, rows)
        self.promised = Promised(self.objects, self.uses)
        self.available = Available(self.objects, nodes, self.promised)

    def note(self, change: Change) -> bool:
        """Apply a change of a storage object; return whether placements may differ now."""
        found = self.objects.note(change)
        for before, after in found:
            self.attached.changed(before, after)
            self.promised.changed(before, after)
        return bool(found)

    def place(self, key: ObjectKey, pod: Pod | None, node: str) -> bool:
        """Set the node of a pod; return whether it leaves volumes to others."""
        was = self.uses.pod(key)
        if was is None and (pod is None or not pod.spec.volumes):
            return False
        before = self.uses.node_of(key)
        for one in self.uses.place(key, pod, node):
            self.attached.pods_changed(one)
            self.promised.pod_changed(was)
            self.promised.pod_changed(self.uses.pod(key))
        return bool(before) and self.uses.node_of(key) != before
