"""A rule as a case: slices, claims, held devices, and the expected answer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from reconciler.api.objects.plan import Reason
from tests.tools.allocation_world import World, on_node, spelled
from tests.tools.builders import Object, held, hold, resource_slice


@dataclass(frozen=True)
class Case:
    """`expected` is one line for each claim, an error, or None for "does not fit"."""

    expected: list[str] | Reason | None
    on: Object | Sequence[Object]
    """One slice or several"""
    claims: Sequence[Object]
    world: Mapping[str, Any] = field(default_factory=dict)
    """Other fields of the world"""

    def answer(self, *, pruned: bool = True) -> list[str] | Reason | None:
        slices = [self.on] if isinstance(self.on, dict) else self.on
        return spelled(on_node(World(slices, self.claims, **self.world), pruned=pruned))


def local(*content: Object, **fields: Any) -> Object:
    """The only slice of a pool, for node n."""
    return resource_slice("s", content, **{"nodeName": "n", **fields})


def taken(*names: str) -> dict[str, Any]:
    """A world in which another claim holds these devices."""
    return {"held": [held("h", *map(hold, names))]}
