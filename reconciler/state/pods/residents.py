"""The pods on nodes as columns: how many pods of a set each node has, and their ports and terms."""

from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from kernels.types import Amounts, Codes, Mask, Rows
from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.objects.selectors import Selector
from reconciler.errors import Rejected
from reconciler.state.caches import Forkable
from reconciler.state.nodes.labels import LabelColumns, widened
from reconciler.state.pods import terms as pod_terms

Key = TypeVar("Key", bound=Hashable)
_EMPTY: Amounts = np.zeros(0, dtype=np.int64)


class Tally(Forkable, Generic[Key]):
    """Keys by rows of nodes."""

    def __init__(self) -> None:
        self._columns: dict[Key, Amounts] = {}
        self._total: dict[Key, int] = {}

    def __contains__(self, key: Key) -> bool:
        return key in self._columns

    def __iter__(self) -> Iterator[Key]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def add(self, key: Key, row: int, amount: int) -> int:
        """Add to a key at a row; return what all rows have. A key that no row has any more is dropped."""
        column = self._columns.get(key, _EMPTY)
        if len(column) <= row:
            column = self._columns[key] = widened(column, row + 1)
        column[row] += amount
        total = self._total[key] = self._total.get(key, 0) + amount
        if total == 0:
            del self._columns[key], self._total[key]
        return total

    def column(self, key: Key, size: int) -> Amounts:
        """(size,) the counts of a key; zero if no row has it. Callers must not change it."""
        column = self._columns.get(key)
        if column is None:
            return np.zeros(size, dtype=np.int64)
        if len(column) < size:
            column = self._columns[key] = widened(column, size)
        found: Amounts = column[:size]
        return found


KEPT = 256
"""Most sets of pods whose columns are kept"""


class Resident(Struct, frozen=True):
    """A pod and its node. Never changed, so forks share it."""

    pod: Pod
    node: str
    row: int
    """Of the pod"""
    ports: tuple[pod_terms.Port, ...]
    """Ports in use, as they are counted"""
    terms: tuple[pod_terms.Term, ...]
    """Required anti-affinity"""
    wishes: tuple[pod_terms.Wish, ...]

    @property
    def terminating(self) -> bool:
        """Whether the pod is being deleted."""
        return self.pod.metadata.deletion_timestamp is not None


class Moved(NamedTuple):
    """What a change of one pod may mean for pods that wait."""

    counted: bool = False
    """Whether a set of pods that a decision asked about changed"""
    freed: bool = False
    """Whether a port or a domain may be free now"""
    settled: bool = False
    """Whether the pod is bound or gone, and was not before"""


STILL = Moved()


class Residents(Forkable):
    """P rows of pods, N rows of nodes. Rows are used again."""

    def __init__(self, node_rows: Mapping[str, int]) -> None:
        """`node_rows` are the rows of nodes by name; the owner keeps them up to date."""
        self.namespaces = pod_terms.Namespaces()
        self._residents: dict[ObjectKey, Resident] = {}
        self._on: dict[str, dict[ObjectKey, None]] = {}
        """Node -> its pods. A pod may arrive before its node"""
        self._unbound: dict[ObjectKey, bool] = {}
        """Pods whose node is decided, and that are not bound to it yet -> whether the gate may be gone"""
        self._node_rows = node_rows
        self._nodes = 0
        self._spare: list[int] = []
        self._labels = LabelColumns({})
        self._size = 0
        self._at: Rows = np.zeros(0, dtype=np.intp)
        """(P or more,) the row of its node; -1 for none"""
        self._namespace: Codes = np.zeros(0, dtype=np.int32)
        self._namespaces: dict[str, int] = {}
        self._terminating: Mask = np.zeros(0, dtype=np.bool_)
        self._ports: Tally[pod_terms.Port] = Tally()
        self._terms: Tally[pod_terms.Term] = Tally()
        self._terms_by_label: pod_terms.SelectorIndex[pod_terms.Term] = pod_terms.SelectorIndex()
        self._sets: OrderedDict[pod_terms.PodSet, Amounts] = OrderedDict()
        self._sets_by_label: pod_terms.SelectorIndex[pod_terms.PodSet] = pod_terms.SelectorIndex()
        self._wishes = pod_terms.Wishes()
        self.serial = 0
        """Number of changes so far"""
        self._nominees: dict[ObjectKey, Pod] = {}
        """Pods without a node that are nominated to one"""

    # -- nodes

    def put_node(self, row: int, name: str) -> None:
        """A node has a row now."""
        self._nodes = max(self._nodes, row + 1)
        for key in self._on.get(name, ()):
            self._count(self._residents[key], row, 1)

    def drop_node(self, row: int, name: str) -> None:
        """A node is gone; its pods may come back with it before they end."""
        for key in self._on.get(name, ()):
            self._count(self._residents[key], row, -1)

    # -- pods

    def get(self, key: ObjectKey) -> Resident | None:
        """A pod with its node; None if it is on none."""
        return self._residents.get(key)

    def nominee(self, key: ObjectKey) -> Pod | None:
        """A pod that is nominated to a node; None if it is not."""
        return self._nominees.get(key)

    def place(self, key: ObjectKey, pod: Pod | None, node: str = "") -> Moved:
        """Set the node of a pod; None if it has none or is gone."""
        settled = self._note_binding(key, pod, node)
        moved = self._place(key, pod, node)
        return moved._replace(settled=True) if settled else moved

    def _note_binding(self, key: ObjectKey, pod: Pod | None, node: str) -> bool:
        """Note whether a pod on a node is bound; return whether it was not, and is now or is gone."""
        if pod is not None and node and not pod.spec.node_name:
            self._unbound[key] = self._unbound.get(key, False) or not pod.gated
            return False
        return self._unbound.pop(key, None) is not None

    def _place(self, key: ObjectKey, pod: Pod | None, node: str) -> Moved:
        before = self._residents.get(key)
        if pod is None or not node:
            return STILL if before is None else self._remove(key, before)
        if before is not None:
            if before.pod is pod and before.node == node:
                return STILL
            if before.node == node and _alike(before.pod, pod):
                self._residents[key] = replace(before, pod=pod)
                return STILL
        left = STILL if before is None else self._remove(key, before)
        return Moved(self._add(key, pod, node) or left.counted, left.freed)

    def unbound(self, *, gated: bool) -> list[ObjectKey]:
        """The pods whose node is decided, and that are not bound to it: all, or only those surely gated."""
        return [key for key, may_be_gone in self._unbound.items() if not (gated and may_be_gone)]

    def release(self, key: ObjectKey) -> None:
        """The gate of a pod is about to be removed: from now on kube-scheduler may bind it."""
        if key in self._unbound:
            self._unbound[key] = True

    def nominate(self, key: ObjectKey, pod: Pod | None) -> bool:
        """Note a pod without a node that may be nominated to one; return whether that changed.

        With our gate, no pod is nominated by kube-scheduler: what it says is a hint of ours, which keeps no
        room. It may outlive the room that is held, such as after a restart.
        """
        before, now = self._nominees.get(key), pod
        if pod is None or pod.finished or pod.gated or not pod.status.nominated_node_name:
            now = None
        self.serial += before is not None or now is not None
        if now is None:
            self._nominees.pop(key, None)
        else:
            self._nominees[key] = now
        return (before and before.status.nominated_node_name) != (now and now.status.nominated_node_name)

    def nominated(self, pod: Pod) -> dict[str, list[Pod]]:
        """The pods of equal or higher priority that are nominated to nodes, without the pod itself."""
        found: dict[str, list[Pod]] = {}
        for key, other in self._nominees.items():
            if key != pod.key and (other.spec.priority or 0) >= (pod.spec.priority or 0):
                found.setdefault(other.status.nominated_node_name, []).append(other)
        return found

    def asks_for_namespaces(self, pod: Pod, terms: Iterable[pod_terms.Term]) -> bool:
        """Whether the labels of namespaces decide where a pod may run. `terms` are its own."""
        if any(term.scope.asks for term in terms):
            return True
        labels, namespace = pod.metadata.labels, pod.key.namespace
        return any(
            term.scope.asks and namespace not in term.scope.names and term.selector.matches(labels)
            for term in self._terms_by_label.candidates(labels)
        )

    # -- columns

    def using(self, port: pod_terms.Port, *, but: Collection[ObjectKey]) -> Amounts:
        """(N,) how many pods use a port, without the pods `but`."""
        column = self._ports.column(port, self._nodes)
        return self._without(column, but, lambda own: own.ports.count(port))

    def against(self, pod: Pod) -> list[pod_terms.Term]:
        """The anti-affinity terms of pods on nodes that select a pod."""
        if not len(self._terms):
            return []
        labels, namespace = pod.metadata.labels, pod.key.namespace
        labels_of = self.namespaces.labels_of
        return [
            term
            for term in self._terms_by_label.candidates(labels)
            if term.matches(namespace, labels, labels_of)
        ]

    def wishes(self, pod: Pod, *, but: Collection[ObjectKey]) -> dict[pod_terms.Wish, Amounts]:
        """What pods on nodes would like that select a pod: (N,) how many have the wish, without `but`."""
        found = {}
        for wish, by_row in self._wishes.about(pod, self.namespaces.labels_of):
            column = np.zeros(self._nodes, dtype=np.int64)
            column[list(by_row)] = list(by_row.values())
            found[wish] = self._without(column, but, lambda own, of=wish: own.wishes.count(of))  # type: ignore[misc]
        return found

    def having(self, term: pod_terms.Term, *, but: Collection[ObjectKey]) -> Amounts:
        """(N,) how many pods have a term of anti-affinity, without the pods `but`."""
        column = self._terms.column(term, self._nodes)
        return self._without(column, but, lambda own: own.terms.count(term))

    def belonging(self, pods: pod_terms.PodSet, *, but: Collection[ObjectKey]) -> Amounts:
        """(N,) how many pods of a set are on each node, without the pods `but`."""
        column = self._sets.get(pods)
        if column is None:
            column = self._sets[pods] = self._counted(pods)
            self._sets_by_label.add(pods, pods.tests[0][1])
            if len(self._sets) > KEPT:
                old, _ = self._sets.popitem(last=False)
                self._sets_by_label.remove(old, old.tests[0][1])
        self._sets.move_to_end(pods)
        if len(column) < self._nodes:
            column = self._sets[pods] = widened(column, self._nodes)
        return self._without(column[: self._nodes], but, lambda own: int(self._belongs(own, pods)))

    def namespaces_changed(self) -> None:
        """Labels of namespaces changed: columns that depend on them are made anew when they are asked for."""
        for pods in [one for one in self._sets if one.asks]:
            del self._sets[pods]
            self._sets_by_label.remove(pods, pods.tests[0][1])

    def _without(
        self, column: Amounts, but: Collection[ObjectKey], count: Callable[[Resident], int]
    ) -> Amounts:
        """A column without what some pods add to it."""
        own = [one for key in but if (one := self._residents.get(key)) is not None]
        found = [(row, count(one)) for one in own if (row := self._node_rows.get(one.node)) is not None]
        if any(amount for _, amount in found):
            column = column.copy()
            for row, amount in found:
                column[row] -= amount
        return column

    def _counted(self, pods: pod_terms.PodSet) -> Amounts:
        inside = self._at[: self._size] >= 0
        if not pods.terminating:
            inside &= ~self._terminating[: self._size]
        for scope, selector in pods.tests:
            inside &= self._in_scope(scope) & self._selected(selector)
        return np.bincount(self._at[: self._size][inside], minlength=self._nodes).astype(np.int64)

    def _in_scope(self, scope: pod_terms.Scope) -> Mask:
        labels_of = self.namespaces.labels_of
        verdicts = [scope.covers_own(name, labels_of) for name in self._namespaces]
        found: Mask = np.array(verdicts, dtype=np.bool_).take(self._namespace[: self._size])
        return found

    def _selected(self, selector: Selector) -> Mask:
        found = np.ones(self._size, dtype=np.bool_)
        for one in selector.requirements:
            found &= self._labels.test(one.key, one.holds)
        return found

    def _belongs(self, one: Resident, pods: pod_terms.PodSet) -> bool:
        if one.terminating and not pods.terminating:
            return False
        return pods.has(one.pod.key.namespace, one.pod.metadata.labels, self.namespaces.labels_of)

    def _add(self, key: ObjectKey, pod: Pod, node: str) -> bool:
        """Put a pod on its node; return whether a set changed."""
        row = self._new_row()
        ports = tuple([used for port in pod_terms.ports_of(pod) for used in pod_terms.counted_as(port)])
        one = Resident(pod, node, row, ports, _terms_of(pod), pod_terms.wishes_of(pod))
        self._residents[key] = one
        self._on.setdefault(node, {})[key] = None
        self._labels.put(row, pod.metadata.labels)
        self._namespace[row] = self._namespaces.setdefault(pod.key.namespace, len(self._namespaces))
        self._terminating[row] = one.terminating
        self._at[row] = -1
        at = self._node_rows.get(node)
        return at is not None and self._count(one, at, 1)

    def _new_row(self) -> int:
        """A row for a pod: a spare one first."""
        if self._spare:
            return self._spare.pop()
        self._size += 1
        if self._size > len(self._at):
            self._at = widened(self._at, self._size)
            self._namespace = widened(self._namespace, self._size)
            self._terminating = widened(self._terminating, self._size)
        return self._size - 1

    def _remove(self, key: ObjectKey, one: Resident) -> Moved:
        counted = False
        at = self._node_rows.get(one.node)
        if at is not None:
            counted = self._count(one, at, -1)
        del self._residents[key], self._on[one.node][key]
        if not self._on[one.node]:
            del self._on[one.node]
        self._labels.drop(one.row)
        self._at[one.row] = -1
        self._spare.append(one.row)
        return Moved(counted, bool(one.ports or one.terms))

    def _count(self, one: Resident, at: int, sign: int) -> bool:
        """Add a pod to all columns at the row of its node, or remove it; return whether a set changed."""
        self.serial += 1
        self._at[one.row] = at if sign > 0 else -1
        self._wishes.count(one.wishes, at, sign)
        for port in one.ports:
            self._ports.add(port, at, sign)
        for term in one.terms:
            having = self._terms.add(term, at, sign)
            if having == 0:
                self._terms_by_label.remove(term, term.selector)
            elif having == sign:
                self._terms_by_label.add(term, term.selector)
        changed = False
        if self._sets:
            for pods in self._sets_by_label.candidates(one.pod.metadata.labels):
                if self._belongs(one, pods):
                    column = self._sets[pods]
                    if len(column) <= at:
                        column = self._sets[pods] = widened(column, at + 1)
                    column[at] += sign
                    changed = True
        return changed


def _alike(one: Pod, other: Pod) -> bool:
    """Whether two versions of a pod count alike. Ports and affinity of a pod with a node cannot change."""
    return (
        one.metadata.uid == other.metadata.uid
        and one.metadata.labels == other.metadata.labels
        and one.metadata.deletion_timestamp == other.metadata.deletion_timestamp
    )


def _terms_of(pod: Pod) -> tuple[pod_terms.Term, ...]:
    """The anti-affinity terms of a pod on a node. One that cannot be read keeps no other pod away."""
    try:
        return pod_terms.anti_affinity_of(pod)
    except Rejected:
        return ()
