"""What pods require or prefer of the pods around them, and the ports of nodes that they use.

Source: core/v1, PodAffinityTerm and ContainerPort; FIT-1 to FIT-7, PREF-4.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

from reconciler.api.objects.changes import Change, versions
from reconciler.api.objects.core import Namespace, Pod, PodAffinity, PodAffinityTerm, PodDisruptionBudget
from reconciler.api.objects.selectors import LabelSelector, Requirement, Selector
from reconciler.errors import Rejected
from reconciler.state.caches import Forkable

Key = TypeVar("Key", bound=Hashable)


class SelectorIndex(Forkable, Generic[Key]):
    """Keys by their selectors. A selector that requires a label is found by its value alone."""

    def __init__(self) -> None:
        self._by_value: dict[tuple[str, str], dict[Key, None]] = {}
        self._others: dict[Key, None] = {}

    def add(self, key: Key, selector: Selector) -> None:
        """Add a key that is not there yet."""
        for place in self._places(selector):
            place[key] = None

    def remove(self, key: Key, selector: Selector) -> None:
        """Remove a key with its selector."""
        for place in self._places(selector):
            del place[key]
        for pair in self._pairs(selector):
            if not self._by_value[pair]:
                del self._by_value[pair]

    def candidates(self, labels: Mapping[str, str]) -> Iterator[Key]:
        """The keys whose selectors may match; each once. All others do not match."""
        yield from self._others
        if self._by_value:
            for pair in labels.items():
                yield from self._by_value.get(pair, ())

    def _places(self, selector: Selector) -> list[dict[Key, None]]:
        pairs = self._pairs(selector)
        return [self._by_value.setdefault(pair, {}) for pair in pairs] if pairs else [self._others]

    @staticmethod
    def _pairs(selector: Selector) -> list[tuple[str, str]]:
        """All labels of which a matching object has exactly one; empty if there are none."""
        for one in selector.requirements:
            if one.operator == "In" and one.values:
                return [(one.key, value) for value in one.values]
        return []


NAMESPACE = "Namespace"
NAME_LABEL = "kubernetes.io/metadata.name"


class Namespaces(Forkable):
    """Known namespaces. One that is not known has the label with its name, which the API server sets."""

    def __init__(self) -> None:
        self._known: dict[str, Namespace] = {}

    @property
    def known(self) -> tuple[Namespace, ...]:
        """The newest version of every namespace."""
        return tuple(self._known.values())

    def labels_of(self, name: str) -> Mapping[str, str]:
        """The labels of a namespace."""
        found = self._known.get(name)
        return {NAME_LABEL: name} if found is None else found.metadata.labels

    def note(self, change: Change) -> bool:
        """Apply a change of namespaces; return whether labels changed."""
        if change.kind != NAMESPACE:
            return False
        changed = False
        for key, one in versions(change, Namespace, (known.key for known in self._known.values())):
            before = self._known.pop(key.name, None)
            if one is not None:
                self._known[key.name] = one
            changed |= (before and before.metadata.labels) != (one and one.metadata.labels)
        return changed


ANY = "0.0.0.0"
"""All addresses of a node"""
_ALWAYS = "Always"


class Port(NamedTuple):
    """A port of a node."""

    protocol: str
    number: int
    address: str
    """Empty: on any address at all, for counting"""

    def __str__(self) -> str:
        return f"{self.number}/{self.protocol}"


def ports_of(pod: Pod) -> tuple[Port, ...]:
    """The ports of its node that a pod uses. Init containers that end do not count."""
    sidecars = [one for one in pod.spec.init_containers if one.restart_policy == _ALWAYS]
    found = []
    for container in (*sidecars, *pod.spec.containers):
        for port in container.ports:
            # In the network of the node, the API server sets hostPort; manifests may lack it.
            number = port.host_port or (port.container_port if pod.spec.host_network else 0)
            if number > 0:
                found.append(Port(port.protocol or "TCP", number, port.host_ip or ANY))
    return tuple(dict.fromkeys(found))


def conflicting(port: Port) -> tuple[Port, ...]:
    """What must not be in use at the node for a pod to use a port."""
    anywhere = port._replace(address="")
    return (anywhere,) if port.address == ANY else (port, port._replace(address=ANY))


def counted_as(port: Port) -> tuple[Port, ...]:
    """What is in use at the node when a pod uses a port."""
    return port, port._replace(address="")


_NOTHING = Selector((Requirement("", "In"),))
"""Selects nothing: no value is allowed"""

HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"
"""Whether a spread constraint keeps pods off nodes, or only off those that have a better one"""

LabelsOf = Callable[[str], Mapping[str, str]]
"""The labels of a namespace"""


class Scope(NamedTuple):
    """Namespaces: by name, and by their labels."""

    names: frozenset[str]
    selector: Selector | None = None

    @property
    def asks(self) -> bool:
        """Whether the labels of namespaces matter."""
        return self.selector is not None and not self.selector.selects_all

    def covers(self, namespace: str, labels_of: LabelsOf) -> bool:
        """Whether a namespace belongs to it."""
        if namespace in self.names:
            return True
        if self.selector is None:
            return False
        return self.selector.selects_all or self.selector.matches(labels_of(namespace))

    def covers_own(self, namespace: str, labels_of: LabelsOf) -> bool:
        """The same for a term of the pod that is being placed (FIT-4).

        kube-scheduler also tests the selector without any labels. One that passes, such as `NotIn`, covers
        every namespace.
        """
        if self.selector is not None and self.selector.matches({}):
            return True
        return self.covers(namespace, labels_of)


class PodSet(NamedTuple):
    """The pods that pass all tests of a pod that is being placed, each a scope and a selector of labels."""

    tests: tuple[tuple[Scope, Selector], ...]
    terminating: bool
    """Whether pods that are being deleted belong to it"""

    @property
    def asks(self) -> bool:
        """Whether the labels of namespaces matter."""
        return any(scope.asks for scope, _ in self.tests)

    def has(self, namespace: str, labels: Mapping[str, str], labels_of: LabelsOf) -> bool:
        """Whether a pod belongs to it that is not being deleted."""
        return all(
            selector.matches(labels) and scope.covers_own(namespace, labels_of)
            for scope, selector in self.tests
        )


class Term(NamedTuple):
    """Pods, and the label of nodes whose values are the domains."""

    scope: Scope
    selector: Selector
    topology_key: str

    def matches(self, namespace: str, labels: Mapping[str, str], labels_of: LabelsOf) -> bool:
        """Whether the term selects a pod."""
        return self.selector.matches(labels) and self.scope.covers(namespace, labels_of)


class Spread(NamedTuple):
    """A topology spread constraint."""

    skew: int
    topology_key: str
    selector: Selector
    least: int
    """`minDomains`"""
    by_affinity: bool
    """Whether only nodes count that match the pod's node selector and affinity"""
    by_taints: bool
    """Whether only nodes count whose taints the pod tolerates"""


def affinity_of(pod: Pod) -> tuple[Term, ...]:
    """The required affinity terms. Raises Rejected for a selector that cannot be read."""
    affinity = pod.spec.affinity
    return () if affinity is None else _terms(pod, affinity.pod_affinity)


def anti_affinity_of(pod: Pod) -> tuple[Term, ...]:
    """The required anti-affinity terms. Raises Rejected for a selector that cannot be read."""
    affinity = pod.spec.affinity
    return () if affinity is None else _terms(pod, affinity.pod_anti_affinity)


def follows_others(pod: Pod) -> bool:
    """Whether pods that arrive may open nodes to a pod: it wants to be near others, or to be spread."""
    affinity = pod.spec.affinity
    near = affinity is not None and affinity.pod_affinity is not None
    return near or bool(pod.spec.topology_spread_constraints)


def minds_others(pod: Pod) -> bool:
    """Whether a pod says that others open nodes to it, or close them."""
    affinity = pod.spec.affinity
    return follows_others(pod) or (affinity is not None and affinity.pod_anti_affinity is not None)


def covered_by(budget: PodDisruptionBudget) -> Selector | None:
    """Which labels a pod has that a budget covers. None if it covers none: also, as in kube-scheduler, if its
    selector cannot be read (MAKE-3).
    """
    try:
        return budget.spec.selector.parsed if budget.spec.selector is not None else None
    except Rejected:
        return None


def preferred_of(pod: Pod) -> list["Wish"]:
    """The preferred terms; the weights of anti-affinity are less than 0.

    Raises Rejected for a selector that cannot be read.
    """
    affinity, found = pod.spec.affinity, list[Wish]()
    if affinity is not None:
        for written, sign in ((affinity.pod_affinity, 1), (affinity.pod_anti_affinity, -1)):
            for one in written.preferred_during_scheduling_ignored_during_execution if written else ():
                found.append(Wish(_term(pod, one.pod_affinity_term), sign * one.weight))
    return found


def spread_of(pod: Pod, when_unsatisfiable: str = HARD) -> tuple[Spread, ...]:
    """The constraints that keep pods off nodes, or those with another `whenUnsatisfiable`.

    Raises Rejected for a selector that cannot be read.
    """
    return tuple(
        Spread(
            one.max_skew,
            one.topology_key,
            _with_own(_parsed(one.label_selector), one.match_label_keys, pod),
            1 if one.min_domains is None else one.min_domains,
            one.node_affinity_policy != "Ignore",
            one.node_taints_policy == "Honor",
        )
        for one in pod.spec.topology_spread_constraints
        if one.when_unsatisfiable == when_unsatisfiable
    )


def _terms(pod: Pod, written: PodAffinity | None) -> tuple[Term, ...]:
    if written is None:
        return ()
    found = written.required_during_scheduling_ignored_during_execution
    return tuple([_term(pod, one) for one in found])


def _term(pod: Pod, written: PodAffinityTerm) -> Term:
    return Term(_scope(pod, written), _parsed(written.label_selector), written.topology_key)


def _scope(pod: Pod, term: PodAffinityTerm) -> Scope:
    if not term.namespaces and term.namespace_selector is None:
        return Scope(frozenset([pod.key.namespace]))
    selector = term.namespace_selector
    return Scope(frozenset(term.namespaces), None if selector is None else selector.parsed)


def _parsed(selector: LabelSelector | None) -> Selector:
    return _NOTHING if selector is None else selector.parsed


def _with_own(selector: Selector, keys: Sequence[str], pod: Pod) -> Selector:
    """The selector, which also requires the pod's own values of some labels."""
    labels = pod.metadata.labels
    own = {key: labels[key] for key in keys if key in labels}
    return selector.with_labels(own) if own else selector


REQUIRED = 1
"""What a required affinity term of a pod counts for the pods that it selects"""


class Wish(NamedTuple):
    """A term of a pod on a node, and how much it counts; less than 0 keeps pods away."""

    term: Term
    weight: int


class Wishes(Forkable):
    """How many pods have each wish, by row of nodes."""

    def __init__(self) -> None:
        self._rows: dict[Wish, dict[int, int]] = {}
        """Sparse: most wishes are those of one workload"""
        self._by_label: SelectorIndex[Wish] = SelectorIndex()

    def count(self, wishes: Sequence[Wish], row: int, sign: int) -> None:
        """Add those of a pod at the row of its node, or remove them with a sign of -1."""
        for wish in wishes:
            if wish not in self._rows:
                self._rows[wish] = {}
                self._by_label.add(wish, wish.term.selector)
            rows = self._rows[wish]
            rows[row] = rows.get(row, 0) + sign
            if rows[row] == 0:
                del rows[row]
            if not rows:
                del self._rows[wish]
                self._by_label.remove(wish, wish.term.selector)

    def about(self, pod: Pod, labels_of: LabelsOf) -> Iterator[tuple[Wish, dict[int, int]]]:
        """The wishes that select a pod, each with the number of pods by row. Callers must not change them."""
        labels, namespace = pod.metadata.labels, pod.key.namespace
        for wish in self._by_label.candidates(labels):
            if wish.term.matches(namespace, labels, labels_of):
                yield wish, self._rows[wish]


def wishes_of(pod: Pod) -> tuple[Wish, ...]:
    """What a pod on a node would like. Terms that cannot be read count for nothing."""
    affinity = pod.spec.affinity
    if affinity is None:
        return ()
    try:
        required = affinity_of(pod) if affinity.pod_affinity is not None else ()
        return *[Wish(term, REQUIRED) for term in required], *preferred_of(pod)
    except Rejected:
        return ()
