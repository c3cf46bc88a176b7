"""What a user wants to gain: by the name of a profile, of an attribute, or whole nodes."""

from collections.abc import Mapping
from math import ceil

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from kernels.distinct import distinct
from reconciler.allocation.alignment.preferences import DEFAULT_TIERS
from reconciler.analysis.capacity.layout import FleetLayout
from reconciler.analysis.capacity.solver import Solver
from reconciler.analysis.defragment.goals import (
    Goal,
    group_goal,
    node_goal,
    profile_goal,
)
from reconciler.api.objects.similar_names import instead
from reconciler.errors import Rejected

NODE = "node"
ALIGNED = frozenset(name.rpartition("/")[2] for name in DEFAULT_TIERS)
"""Attributes of any domain that group the devices of a node"""


class Target(Struct, frozen=True):
    """How much of what. Exactly one of `gain`, `percent` and `least` is set."""

    name: str = ""
    """A profile, also as `driver/profile`, a qualified attribute, or `node`; empty for what `for_each_kind`
    finds
    """
    gain: int | None = None
    percent: int | None = None
    """Of what fits at most after any moves"""
    least: int | None = None
    """How many are to fit"""

    def __str__(self) -> str:
        name = f"{self.name}=" if self.name else ""
        return f"{name}{self.percent}%" if self.percent is not None else f"{name}{self.least or self.gain}"

    def wanted(self, before: int, most: int) -> int:
        """How much to gain."""
        if self.gain is not None:
            return self.gain
        if self.least is not None:
            return max(self.least - before, 0)
        assert self.percent is not None
        return max(ceil((before + most) * self.percent / 100) - before, 0)


def parse_goal(text: str) -> Target:
    """A standing goal: `90%`, `NAME=90%`, or `NAME=N` for how many are to fit. Raises Rejected."""
    name, _, number = text.rpartition("=")
    if number.endswith("%"):
        return parse_percent(text)
    if not name or not number.isdecimal() or not int(number):
        raise Rejected(f"goal {text}: write NAME=N with a positive number, or a percentage such as 90%")
    return Target(name, least=int(number))


def parse_percent(text: str) -> Target:
    """`90%` or `NAME=90%`. Raises Rejected."""
    name, _, number = text.rpartition("=")
    number = number.removesuffix("%")
    if not number.isdecimal() or not 0 < int(number) <= 100:
        raise Rejected(f"{text}: write a percentage from 1% to 100%, such as 7g.40gb=90%")
    return Target(name, percent=int(number))


def for_each_kind(target: Target, layout: FleetLayout) -> tuple[Target, ...]:
    """The same target; without a name, one for each kind of room that the fleet can strand.

    That is the largest profile of each driver that has partitions; and of whole devices, groups on a NUMA
    node or PCIe root, and if there are no partitions, whole nodes. None if no node has several devices.
    """
    if target.name:
        return (target,)
    profiles = _partitions(layout)
    drivers: dict[str, list[str]] = {}
    for name in profiles:
        drivers.setdefault(name.partition("/")[0], []).append(name)
    found = [min(names, key=lambda name: _by_size(name, profiles, layout)) for names in drivers.values()]
    found += sorted(filter(None, (_grouping(one, layout) for one in layout.fleet.cel.attributes)))
    if not profiles and (np.bincount(layout.node_of[layout.offered & (layout.node_of >= 0)]) > 1).any():
        found.append(NODE)
    return tuple(replace(target, name=name) for name in found)


def _grouping(attribute: tuple[str, str], layout: FleetLayout) -> str:
    """The name of an attribute that divides the whole devices of nodes into groups; empty if it does not.

    A group has several devices of one driver: a GPU with its NIC is not one that devices can be left over in.
    """
    if attribute[1] not in ALIGNED:
        return ""
    fleet = layout.fleet
    codes = fleet.cel.attributes[attribute].codes
    rows = np.flatnonzero(layout.offered & (codes >= 0) & (layout.node_of >= 0))
    if (fleet.sets[rows] >= 0).any():
        return ""
    drivers = layout.driver_of_pool[fleet.pool_of[rows]]
    found = np.stack([layout.node_of[rows], drivers, codes[rows]])
    groups, sizes = np.unique(found, axis=1, return_counts=True)
    several = groups[:, sizes > 1]
    return "/".join(attribute) if len(distinct(several[0])) < several.shape[1] else ""


def goal_of(target: Target, layout: FleetLayout) -> Goal:
    """What is counted, for a target with a name. Raises Rejected if the fleet has nothing of that name."""
    if target.name == NODE:
        return node_goal(layout)
    attributes = {f"{domain}/{name}": (domain, name) for domain, name in layout.fleet.cel.attributes}
    if target.name in attributes:
        return group_goal(layout, attributes[target.name])
    profiles = _partitions(layout)
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


def _by_size(name: str, profiles: Mapping[str, int], layout: FleetLayout) -> tuple[tuple[float, ...], str]:
    """The largest first."""
    return tuple(-part for part in layout.sizes[profiles[name]]), name
