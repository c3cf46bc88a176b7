"""What pods require or prefer of the pods around them. Source: core/v1, PodAffinityTerm; FIT-1 to FIT-6."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from reconciler.api.objects.core import Pod, PodAffinity, PodAffinityTerm
from reconciler.api.objects.selectors import LabelSelector, Requirement, Selector

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


def preferred_of(pod: Pod) -> Iterator[tuple[Term, int]]:
    """The preferred terms with their weights; those of anti-affinity are less than 0.

    Raises Rejected for a selector that cannot be read.
    """
    affinity = pod.spec.affinity
    if affinity is None:
        return
    for written, sign in ((affinity.pod_affinity, 1), (affinity.pod_anti_affinity, -1)):
        if written is not None:
            for one in written.preferred_during_scheduling_ignored_during_execution:
                yield _term(pod, one.pod_affinity_term), sign * one.weight


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
    return tuple(_term(pod, one) for one in found)


def _term(pod: Pod, written: PodAffinityTerm) -> Term:
    return Term(_scope(pod, written), _parsed(written.label_selector), written.topology_key)


def _scope(pod: Pod, term: PodAffinityTerm) -> Scope:
    if not term.namespaces and term.namespace_selector is None:
        return Scope(frozenset([pod.key.namespace]))
    selector = term.namespace_selector
    return Scope(frozenset(term.namespaces), None if selector is None else selector.parsed())


def _parsed(selector: LabelSelector | None) -> Selector:
    return _NOTHING if selector is None else selector.parsed()


def _with_own(selector: Selector, keys: Sequence[str], pod: Pod) -> Selector:
    """The selector, which also requires the pod's own values of some labels."""
    labels = pod.metadata.labels
    own = {key: labels[key] for key in keys if key in labels}
    return selector.with_labels(own) if own else selector
