"""How many pods PodDisruptionBudgets let go. Source: MAKE-3."""

from collections import Counter
from collections.abc import Iterable, Mapping

from reconciler.api.objects.budgets import PodDisruptionBudget
from reconciler.api.objects.core import Pod
from reconciler.api.objects.label_selector import Selector
from reconciler.api.objects.meta import ObjectKey
from reconciler.errors import Rejected


class Budgets:
    """The budgets of some pods. One whose selector cannot be read covers no pod, as in kube-scheduler."""

    def __init__(self, budgets: Iterable[PodDisruptionBudget]) -> None:
        self._known = sorted(budgets, key=lambda one: one.key)
        self.allowed = [max(one.status.disruptions_allowed, 0) for one in self._known]
        """How many pods each budget lets go now"""
        self._by_namespace: dict[str, list[tuple[int, Selector]]] = {}
        for number, one in enumerate(self._known):
            if one.spec.selector is None:
                continue
            try:
                selector = one.spec.selector.parsed()
            except Rejected:
                continue
            self._by_namespace.setdefault(one.key.namespace, []).append((number, selector))

    def of(self, pod: Pod) -> tuple[int, ...]:
        """The numbers of the budgets that an eviction of a pod would use."""
        found = self._by_namespace.get(pod.key.namespace)
        if found is None:
            return ()
        labels, name = pod.metadata.labels, pod.key.name
        return tuple(
            number
            for number, selector in found
            if selector.matches(labels) and name not in self._known[number].status.disrupted_pods
        )

    def key(self, number: int) -> ObjectKey:
        """Namespace and name of a budget."""
        return self._known[number].key

    def violating(self, pods: Iterable[tuple[int, ...]]) -> int:
        """How many pods, leaving one after another, violate a budget. `pods` has the budgets of each pod.

        A pod counts once, however many budgets it violates.
        """
        left, found = dict(enumerate(self.allowed)), 0
        for of_pod in pods:
            for number in of_pod:
                left[number] -= 1
            found += any(left[number] < 0 for number in of_pod)
        return found

    def violated(self, pods: Iterable[tuple[int, ...]]) -> Mapping[int, int]:
        """Number of a budget -> evictions beyond what it allows. `pods` has the budgets of each pod."""
        used = Counter(number for of_pod in pods for number in of_pod)
        return {
            number: count - self.allowed[number]
            for number, count in sorted(used.items())
            if count > self.allowed[number]
        }
