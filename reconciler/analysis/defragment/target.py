"""What a user wants to gain: by the name of a profile, of an attribute, or whole nodes."""

from dataclasses import dataclass
from math import ceil

from reconciler.analysis.capacity.layout import FleetLayout
from reconciler.analysis.capacity.solver import Solver
from reconciler.analysis.defragment.goals import (
    Goal,
    ProfileGoal,
    group_goal,
    node_goal,
    profile_goal,
)
from reconciler.api.objects.similar_names import instead
from reconciler.errors import Rejected

NODE = "node"


@dataclass(frozen=True, slots=True)
class Target:
    """How much of what. Exactly one of `gain` and `percent` is set."""

    name: str = ""
    """A profile, also as `driver/profile`, a qualified attribute, or `node`; empty for the largest profile"""
    gain: int | None = None
    percent: int | None = None
    """Of what fits at most after any moves"""

    def wanted(self, before: int, most: int) -> int:
        """How much to gain."""
        if self.gain is not None:
            return self.gain
        assert self.percent is not None
        return max(ceil((before + most) * self.percent / 100) - before, 0)


def goal_of(target: Target, layout: FleetLayout) -> Goal:
    """What is counted. Raises Rejected if the fleet has nothing of that name."""
    if target.name == NODE:
        return node_goal(layout)
    attributes = {f"{domain}/{name}": (domain, name) for domain, name in layout.fleet.cel.attributes}
    if target.name in attributes:
        return group_goal(layout, attributes[target.name])
    profiles = _partitions(layout)
    if not target.name:
        return _largest(layout, profiles)
    found = [at for name, at in profiles.items() if target.name in (name, name.partition("/")[2])]
    if len(found) == 1:
        return profile_goal(layout, found[0], Solver())
    if found:
        names = sorted(name for name, at in profiles.items() if at in found)
        raise Rejected(f"several drivers have the profile {target.name}; name one of {', '.join(names)}")
    if target.name in {name for _, name in layout.profiles.names}:
        raise Rejected(
            f"devices of {target.name} draw from no counters, so moves free none of them for others; "
            f"gain {NODE}, or an attribute such as a NUMA node"
        )
    known = [*profiles, *attributes, NODE]
    raise Rejected(f"there is no profile or attribute {target.name}{instead(target.name, known, 'names')}")


def _partitions(layout: FleetLayout) -> dict[str, int]:
    """Profiles whose devices draw from counters: driver/profile -> number."""
    drawing = (layout.fleet.sets >= 0).any(axis=1) & layout.offered
    numbers = sorted({int(at) for at in layout.profiles.of[drawing]})
    return {"/".join(layout.profiles.names[at]): at for at in numbers}


def _largest(layout: FleetLayout, profiles: dict[str, int]) -> ProfileGoal:
    drivers = sorted({name.partition("/")[0] for name in profiles})
    if not profiles:
        raise Rejected(f"no devices share counters; name what to gain, such as --gain {NODE}=1")
    if len(drivers) > 1:
        raise Rejected(f"several drivers have partitions: {', '.join(drivers)}; name what to gain")
    largest = min(profiles, key=lambda name: (tuple(-part for part in layout.sizes[profiles[name]]), name))
    return profile_goal(layout, profiles[largest], Solver())
