"""All gated pods that share claims: whether they fit on nodes together. Source: FIT-11.

Frozen when it is made, so that a search in another thread may ask it.
"""

from collections import Counter as Count
from collections import Counter as Numbers
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from kernels import domains
from kernels.domains import Counter, Even, Rule, Vacant, Within
from kernels.matching import Kind, Supply, fit_together
from kernels.types import Amounts, Codes, Mask
from reconciler.api.objects.core import Pod
from reconciler.api.objects.meta import ObjectKey
from reconciler.errors import shortened
from reconciler.state.nodes.table import Nodes
from reconciler.state.volumes.objects import VolumeID
from reconciler.state.volumes.uses import UNLIMITED

_PLENTY = 2**40
"""More volumes than any node can have"""


class AttachRoom(NamedTuple):
    """How many more volumes nodes can attach."""

    free: Amounts
    """(drivers, N)"""
    drivers: tuple[str, ...]
    own: Mapping[ObjectKey, frozenset[VolumeID]]
    """Pod -> the volumes that it alone brings"""
    shared: tuple["SharedVolumes", ...]
    """Of each driver with a limit that has some"""

    def wanted(self, pod: Pod) -> Amounts:
        """(drivers,) how many volumes a pod adds to its node."""
        found = [sum(one.driver == driver for one in self.own[pod.key]) for driver in self.drivers]
        return np.array(found, dtype=np.int64)

    def counters(self, rows: Sequence[int] | np.ndarray) -> list[domains.Counter]:
        """The counters of the rules, for nodes in the order of these rows."""
        return [one for shared in self.shared for one in shared.counters(rows)]

    def rules(self, pod: Pod, first: int) -> tuple[Within, ...]:
        """The rules of a pod. `first` is the position of the first of the counters."""
        return tuple(found for at, shared in self._placed(first) if (found := shared.rule(pod, at)))

    def adds(self, pod: Pod, first: int) -> tuple[int, ...]:
        """The counters in which a pod counts, as often as it does."""
        return tuple(one for at, shared in self._placed(first) for one in shared.adds(pod, at))

    def _placed(self, first: int) -> list[tuple[int, "SharedVolumes"]]:
        found = []
        for shared in self.shared:
            found.append((first, shared))
            first += 1 + len(shared.volumes)
        return found


class SharedVolumes(NamedTuple):
    """The volumes of a driver that several of the pods use, or that some node has already.

    The domain of row n is n + 1.
    """

    volumes: tuple[VolumeID, ...]
    """P volumes"""
    fresh: Mask
    """(P, N + 1) nodes that do not have the volume already, by domain"""
    left: Amounts
    """(N + 1,) how many more volumes nodes can attach, by domain"""
    used: Mapping[ObjectKey, frozenset[VolumeID]]
    """Pod -> its volumes of the driver"""

    def counters(self, rows: Sequence[int] | np.ndarray) -> list[domains.Counter]:
        """Of volumes that one pod alone brings, then one of each shared volume."""
        codes: Codes = (np.asarray(rows) + 1).astype(np.int32)
        none = np.zeros(len(self.left), dtype=np.int64)
        return [domains.Counter(codes, none) for _ in range(1 + len(self.volumes))]

    def rule(self, pod: Pod, first: int) -> Within | None:
        """The rule of a pod; None if it uses no volume of the driver."""
        used = self.used[pod.key]
        if not used:
            return None
        parts = tuple(range(first + 1, first + 1 + len(self.volumes)))
        mine = tuple(volume in used for volume in self.volumes)
        return Within(first, len(used) - sum(mine), parts, mine, self.fresh, self.left)

    def adds(self, pod: Pod, first: int) -> list[int]:
        """The counters in which a pod counts."""
        used = self.used[pod.key]
        shared = [first + 1 + at for at, volume in enumerate(self.volumes) if volume in used]
        return [first] * (len(used) - len(shared)) + shared


def attach_room(nodes: Nodes, pods: Sequence[Pod]) -> AttachRoom:
    """The room for the volumes of these pods, which do not count themselves."""
    attached, but = nodes.volumes.attached, tuple(pod.key for pod in pods)
    used = {pod.key: attached.volumes_of(pod) for pod in pods} if nodes.volumes.considered else {}
    times = Count(volume for volumes in used.values() for volume in volumes)
    there = {volume: ~attached.without(volume, but=but) for volume in times}
    new = {one for one, number in times.items() if number == 1 and not there[one].any()}
    free, drivers, shared = [], [], []
    for driver in sorted({volume.driver for volume in times}):
        limit = attached.limit(driver)
        if not (limit != UNLIMITED).any():
            continue
        left = np.where(limit == UNLIMITED, _PLENTY, limit - attached.count(driver, but=but))
        if any(volume.driver == driver for volume in new):
            free.append(left)
            drivers.append(driver)
        # A volume that is somewhere already is counted like a shared one: not where it is.
        common = tuple(sorted(one for one in times if one.driver == driver and one not in new))
        if common:
            shared.append(_shared(driver, common, there, left, used))
    return AttachRoom(
        np.array(free, dtype=np.int64).reshape(len(free), len(nodes.every())),
        tuple(drivers),
        {pod.key: used.get(pod.key, frozenset()) & new for pod in pods},
        tuple(shared),
    )


def _shared(
    driver: str,
    volumes: tuple[VolumeID, ...],
    there: Mapping[VolumeID, Mask],
    left: Amounts,
    used: Mapping[ObjectKey, frozenset[VolumeID]],
) -> SharedVolumes:
    fresh = np.stack([np.concatenate([[False], ~there[volume]]) for volume in volumes])
    own = {key: frozenset(one for one in all_of if one.driver == driver) for key, all_of in used.items()}
    return SharedVolumes(volumes, fresh, np.concatenate([[0], left]), own)


STEPS = 2_000
"""How often the nodes for a pod may be computed for one set of nodes"""
SHOWN = 5
"""Most pods that a message names"""


class Together:
    """N nodes, in the order of a topology."""

    def __init__(
        self,
        pods: Sequence[ObjectKey],
        kinds: Sequence[tuple[Kind, tuple[int, ...]]],
        counters: Sequence[Counter],
        free: Amounts,
        order: tuple[str, ...],
        supply: Supply,
    ) -> None:
        """`kinds` has one of each pod, in their order, with the positions of its claims in the decision.

        free   (R, N)
        supply the volumes that they compete for
        """
        self.pods = tuple(pods)
        self.gave_up = False
        """Whether a search was too long. The pods count as not fitting there"""
        self.nowhere = any(not kind.allowed.any() for kind, _ in kinds)
        """Whether one of the pods suits no node even alone"""
        self._each = tuple(kinds)
        self._kinds = tuple(grouped(kinds))
        self._counters = tuple(counters)
        self._free = free
        self._order = order
        self._supply = supply
        self._verdicts: dict[tuple[bytes, ...], bool] = {}

    def fit(self, reach: Sequence[Mask], spend: Callable[[], object] = lambda: None) -> bool:
        """Whether all pods fit on nodes that reach their claims; cached. See `Companions`."""
        key = tuple(mask.tobytes() for mask in reach)
        if key not in self._verdicts:
            self._verdicts[key] = self._search(self._kinds, reach, spend) is not None
        return self._verdicts[key]

    def places(
        self, reach: Sequence[Mask], spend: Callable[[], object] = lambda: None
    ) -> dict[ObjectKey, str] | None:
        """A node for each pod, if all fit on nodes that reach their claims."""
        found = self._search(self._each, reach, spend)
        if found is None:
            return None
        return {pod: self._order[place] for pod, (place,) in zip(self.pods, found, strict=True)}

    def refusal(self) -> str:
        """Why a decision is refused that does not serve all pods."""
        text = f"the {len(self.pods)} gated pods that share the claims do not all fit on the nodes of any "
        text += f"free device: {shortened(self.pods, SHOWN)}"
        return f"{text}; a search gave up after {STEPS} steps" if self.gave_up else text

    def on_one_node(self) -> Mask:
        """(N,) nodes on which all pods may fit at once. The others are excluded by counting."""
        found = np.ones(self._free.shape[1], dtype=np.bool_)
        codes = [one.codes for one in self._counters]
        counts = [one.counts for one in self._counters]
        need = np.zeros(len(self._free), dtype=np.int64)
        for kind, _ in self._kinds:
            need += kind.wanted * kind.number
            found &= kind.allowed
            for rule in kind.rules:
                if rule.tightens:
                    found &= rule.allows(codes, counts)
        for r in np.flatnonzero(need).tolist():
            found &= self._free[r] >= need[r]
        needed = Numbers(at for kind, _ in self._kinds for at in kind.needs for _ in range(kind.number))
        for at, number in needed.items():
            least = 1 if self._supply.joint[at] else number
            found &= self._supply.spared[at] | (self._supply.each(at) >= least)
        return found

    def _search(
        self,
        of: Sequence[tuple[Kind, tuple[int, ...]]],
        reach: Sequence[Mask],
        spend: Callable[[], object],
    ) -> tuple[tuple[int, ...], ...] | None:
        """Kind -> the places of its pods."""
        kinds = []
        for kind, claims in of:
            allowed = kind.allowed
            for at in claims:
                allowed = allowed & reach[at]
            if not allowed.any():
                return None
            kinds.append(replace(kind, allowed=allowed))
        among = np.any([kind.allowed for kind in kinds], axis=0)
        outcome = fit_together(
            kinds, self._counters, self._free, among, steps=STEPS, on_step=spend, supply=self._supply
        )
        self.gave_up = self.gave_up or not outcome.complete
        return outcome.places


def grouped(
    kinds: Sequence[tuple[Kind, tuple[int, ...]]],
) -> list[tuple[Kind, tuple[int, ...]]]:
    """Alike pods as one kind. The order is kept."""
    found: dict[Hashable, tuple[Kind, tuple[int, ...]]] = {}
    for kind, claims in kinds:
        key = (
            kind.allowed.tobytes(),
            kind.wanted.tobytes(),
            frozenset(map(_rule_key, kind.rules)),
            kind.adds,
            kind.needs,
            claims,
        )
        if key in found:
            alike, _ = found[key]
            found[key] = replace(alike, number=alike.number + kind.number), claims
        else:
            found[key] = kind, claims
    return list(found.values())


def _rule_key(rule: Rule) -> Hashable:
    match rule:
        case Vacant(counter=counter):
            return counter
        case Even(counter=counter, skew=skew, own=own, least=least, domains=domains):
            return counter, skew, own, least, domains.tobytes()
        case Within(single=single, own=own, mine=mine):
            return single, own, mine
    return rule  # type: ignore[return-value]
