"""The default choice: the best devices first, each considered alone (KOO-12)."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain, zip_longest
from typing import NamedTuple

from reconciler.allocation.koordinator.demand import Instance
from reconciler.allocation.koordinator.failure import Failure, insufficient
from reconciler.allocation.koordinator.scoring import device_score
from reconciler.allocation.koordinator.view import Attempt
from reconciler.api.koordinator.amounts import any_left, fits
from reconciler.api.koordinator.device import VirtualFunction
from reconciler.state.koordinator.holdings import Grant


class Ranked(NamedTuple):
    """A device in a ranking."""

    minor: int
    score: int = 0
    pcie: str | None = None

    @property
    def order(self) -> tuple[int, int]:
        """Higher scores first, then lower minors."""
        return -self.score, self.minor


def rank(
    devices: Iterable[Ranked], preferred: Collection[int] = (), pcies: Collection[str] = ()
) -> list[Ranked]:
    """Devices in the order in which they are tried.

    Preferred minors come first and make switches irrelevant. Otherwise preferred switches give one
    device each, then a second one each, and so on, before any other device is looked at.
    """
    ordered = sorted(devices, key=lambda device: device.order)
    if preferred:
        return sorted(ordered, key=lambda device: device.minor not in preferred)
    near: dict[str, list[Ranked]] = {}
    far: list[Ranked] = []
    for device in ordered:
        if device.pcie is not None and device.pcie in pcies:
            near.setdefault(device.pcie, []).append(device)
        else:
            far.append(device)
    rounds = (filter(None, turn) for turn in zip_longest(*near.values()))
    return [*chain.from_iterable(sorted(turn, key=lambda d: d.order) for turn in rounds), *far]


def choose(
    at: Attempt, kind: str, needed: Instance, *, limit: int = 0, pcies: Collection[str] = ()
) -> tuple[Grant, ...] | Failure:
    """The best devices: as many as needed, and up to `limit` if more are usable."""
    chosen: list[Grant] = []
    for grant in usable(at, kind, needed, pcies):
        if len(chosen) >= max(needed.count, limit):
            break
        chosen.append(grant)
    return tuple(chosen) if len(chosen) >= needed.count else insufficient(kind)


def usable(at: Attempt, kind: str, needed: Instance, pcies: Collection[str] = ()) -> Iterator[Grant]:
    """Every device of a type that can be allocated, the best first."""
    devices = [Ranked(m, score_of(at, kind, m, needed), at.machine.pcie(kind, m)) for m in at.free[kind]]
    for device in rank(devices, at.takeover.preferred.get(kind, ()), pcies):
        if (grant := grant_of(at, kind, device.minor, needed)) is not None:
            yield grant


def score_of(at: Attempt, kind: str, minor: int, needed: Instance) -> int:
    """The score of a candidate device."""
    return device_score(at.rules.scoring, needed.each, at.total[kind][minor], at.free[kind][minor])


def grant_of(at: Attempt, kind: str, minor: int, needed: Instance) -> Grant | None:
    """The grant for one candidate device; None if the device does not fit."""
    free = at.free[kind][minor]
    if not any_left(free) or not fits(needed.each, free):
        return None
    if at.demand.hint(kind).vf_selector is None:
        return Grant(minor, needed.each)
    vf = free_vf(at, kind, minor)
    return None if vf is None else Grant(minor, needed.each, (vf,))


def free_vf(at: Attempt, kind: str, minor: int) -> VirtualFunction | None:
    """The virtual function to allocate: the free matching one with the lowest bus id, compared as text."""
    selector = at.demand.hint(kind).vf_selector
    named = _designated_vfs(at, kind).get(minor)
    free = (
        vf
        for group in at.machine.devices[kind][minor].vf_groups
        if selector is None or selector.matches(group.labels)
        for vf in group.vfs
        if not at.holdings.vf_taken(kind, minor, vf.bus_id) and (not named or vf.bus_id in named)
    )
    return min(free, key=lambda vf: vf.bus_id, default=None)


def _designated_vfs(at: Attempt, kind: str) -> Mapping[int, set[str]]:
    given = at.takeover.designated or {}
    return {grant.minor: {vf.bus_id for vf in grant.vfs} for grant in given.get(kind, ())}
