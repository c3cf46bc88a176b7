"""The demand as values: how many equal pods or claims are expected, each of which needs one node."""

from collections.abc import Hashable, Iterable

from msgspec import Struct

from reconciler.analysis.whatif.scenario import Unit
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.core import Pod
from reconciler.api.objects.model import text_of


class Item(Struct, frozen=True):
    """A number of equal units."""

    unit: Unit
    """The first of them; the others differ in their names only"""
    count: int
    number: int
    """Position among the items"""

    @property
    def name(self) -> str:
        """For users: `pod default/p`, `claim default/c`, or the name in a Demand."""
        return self.unit.name

    def copy(self, number: int) -> Unit:
        """One of the units. No object on a server can have the uid of its claims and the name of its pod."""
        pod = self.unit.pod
        return Unit(
            self.unit.name,
            tuple(_copied_claim(claim, f"{self.number} {number}") for claim in self.unit.claims),
            _copied_pod(pod, f"{self.number} {number}") if pod is not None else None,
        )


def items_of(counted: Iterable[tuple[Unit, int]]) -> tuple[Item, ...]:
    """The items of some units, each with its number. Equal units become one item, named after the first."""
    found: dict[Hashable, tuple[Unit, int]] = {}
    for unit, count in counted:
        key = _key(unit)
        first, before = found.get(key, (unit, 0))
        found[key] = first, before + count
    wanted = [entry for entry in found.values() if entry[1]]
    return tuple(Item(unit, count, number) for number, (unit, count) in enumerate(wanted))


def _key(unit: Unit) -> Hashable:
    """Equal for units that differ in their names only."""
    claims = tuple(text_of(claim.spec) for claim in unit.claims)
    if unit.pod is None:
        return claims
    spec = unit.pod.spec.model_copy(update={"resource_claims": ()})
    labels = tuple(sorted(unit.pod.metadata.labels.items()))
    return claims, unit.pod.key.namespace, labels, text_of(spec)


def _copied_claim(claim: ResourceClaim, mark: str) -> ResourceClaim:
    metadata = claim.metadata.model_copy(update={"uid": f"expected {claim.key} {mark}"})
    return claim.model_copy(update={"metadata": metadata})


def _copied_pod(pod: Pod, mark: str) -> Pod:
    metadata = pod.metadata.model_copy(update={"name": f"expected {pod.key.name} {mark}"})
    return pod.model_copy(update={"metadata": metadata})
