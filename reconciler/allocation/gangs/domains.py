"""The domains in which a gang is tried, in order, and how many members fit into each at most.

A tier makes domains: values that all its nodes, or all its devices, share. Source: GANG-4, GANG-6, GANG-7.
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import product

import numpy as np
from msgspec import Struct

from kernels.types import Amounts, Codes, Mask, Rows
from reconciler.allocation.alignment.preferences import limit
from reconciler.allocation.dra.constraints import Tokens, compile_constraint
from reconciler.allocation.gangs.kinds import GangQuestion, Kind
from reconciler.allocation.gangs.limits import Limits
from reconciler.allocation.gangs.places import Places
from reconciler.api.objects.gangs import Tier
from reconciler.api.objects.meta import DeviceID
from reconciler.state.devices.snapshot import Snapshot
from reconciler.state.nodes.table import Nodes
from reconciler.state.trial import Trial


class LabelTier(Struct, frozen=True):
    """A tier by the label of nodes."""

    tier: Tier
    codes: Codes
    """(N,) in the order of nodes: the value; 0 where it is missing, or not that of placed members"""


class AttributeTier(Struct, frozen=True):
    """A tier by an attribute of devices."""

    tier: Tier
    codes: Codes
    """(D,) -1 where a device has no value"""
    values: dict[Hashable, list[int]]
    """Value -> codes of which it is part; only those of devices that placed members have"""


class Grouping(Struct, frozen=True, eq=False):
    """The domains of some tiers that share the values of their attributes."""

    met: tuple[Tier, ...]
    codes: Codes
    """(N,) the domain of each place, -1 for none"""
    names: tuple[tuple[str, ...], ...]
    """(G,) of each domain: the value of each tier in `met`"""
    devices: Mask | None
    """(D,) devices that may be used; None for all"""


class Tiers:
    """The tiers of one question."""

    def __init__(self, question: GangQuestion, nodes: Nodes, snapshot: Snapshot) -> None:
        self._nodes, self._snapshot = nodes, snapshot
        self._order = snapshot.topology.order
        held = [*question.devices, *(device for member in question.members for device in member.devices)]
        self.unknown: list[str] = []
        """Keys that are no label of a node and no attribute of a device"""
        self._of_key: dict[str, LabelTier | AttributeTier] = {
            tier.key: self._read(tier, question.nodes, held) for tier in question.tiers
        }
        self.tiers = question.tiers

    def levels(self) -> Iterator[tuple[Tier, ...]]:
        """Which tiers to meet, the best first: the tightest preferred one matters most."""
        choices = [(True,) if tier.required else (True, False) for tier in self.tiers]
        for met in product(*choices):
            yield tuple(tier for tier, wanted in zip(self.tiers, met, strict=True) if wanted)

    def required(self) -> tuple[Tier, ...]:
        """The tiers that must be met."""
        return tuple(tier for tier in self.tiers if tier.required)

    def groupings(self, met: Sequence[Tier]) -> Iterator[Grouping]:
        """The domains of some tiers, one grouping for each choice of attribute values."""
        labels = [one for tier in met if isinstance(one := self._of_key[tier.key], LabelTier)]
        attributes = [one for tier in met if isinstance(one := self._of_key[tier.key], AttributeTier)]
        codes, first = self._domains(labels)
        of_label = {
            one.tier.key: [values[code] for code in one.codes[first].tolist()]
            for one in labels
            for values in [self._nodes.labels.values(one.tier.key)]
        }
        for values in product(*(one.values for one in attributes)):
            devices = None
            for one, value in zip(attributes, values, strict=True):
                mask = np.isin(one.codes, one.values[value])
                devices = mask if devices is None else devices & mask
            if devices is not None and not devices.any():
                continue
            spelled = of_label | {
                one.tier.key: [_spelled(value)] * len(first)
                for one, value in zip(attributes, values, strict=True)
            }
            names = tuple(zip(*(spelled[tier.key] for tier in met), strict=True)) or ((),) * len(first)
            yield Grouping(tuple(met), codes, names, devices)

    def labels(self, tiers: Iterable[Tier]) -> list[Codes]:
        """The codes of those tiers that are labels."""
        found = (self._of_key[tier.key] for tier in tiers)
        return [one.codes for one in found if isinstance(one, LabelTier)]

    def _domains(self, labels: Sequence[LabelTier]) -> tuple[Codes, Rows]:
        """(N,) domains of joint values, -1 where one is missing; and (G,) a place in each."""
        size = len(self._order)
        if not labels:
            return np.zeros(size, dtype=np.int32), np.arange(min(size, 1))
        columns = np.stack([one.codes for one in labels])
        at = np.flatnonzero((columns > 0).all(axis=0))
        joint = columns[0, at].astype(np.int64)
        for column in columns[1:]:
            joint = joint * (int(column.max(initial=0)) + 1) + column[at]
        _, first, inverse = np.unique(joint, return_index=True, return_inverse=True)
        codes = np.full(size, -1, dtype=np.int32)
        codes[at] = inverse
        return codes, at[first]

    def _read(
        self, tier: Tier, placed: Sequence[str], devices: Sequence[DeviceID]
    ) -> LabelTier | AttributeTier:
        codes = self._nodes.in_order(self._nodes.labels.codes(tier.key)[0], self._order)
        if codes.any():
            return LabelTier(tier, self._where_placed(tier.key, codes, placed))
        return self._attribute(tier, devices)

    def _where_placed(self, key: str, codes: Codes, placed: Sequence[str]) -> Codes:
        """The codes, only where the members are that have a place already.

        Nowhere if their nodes do not exist any more, so that the value is unknown.
        """
        if not placed:
            return codes
        known = [name for name in placed if name in self._snapshot.topology.nodes]
        values = {self._nodes.label(name, key) for name in known}
        if len(values) != 1 or None in values:
            return np.zeros_like(codes)
        value = codes[self._order.index(known[0])]
        return np.where(codes == value, codes, 0).astype(np.int32)

    def _attribute(self, tier: Tier, devices: Sequence[DeviceID]) -> AttributeTier:
        fleet = self._snapshot.fleet
        rows = np.arange(fleet.size)
        known = compile_constraint(limit(tier.key, ()), fleet, rows, self._snapshot.rules)
        if not (known.codes >= 0).any():
            self.unknown.append(tier.key)
        fixed: Tokens | None = None
        for device in devices:
            for row in fleet.rows_of(device)[-1:]:
                here = known.tokens.get(int(known.codes[row]), frozenset())
                fixed = here if fixed is None else fixed & here
        values: dict[Hashable, list[int]] = {}
        for code, tokens in known.tokens.items():
            for token in tokens if fixed is None else tokens & fixed:
                values.setdefault(token, []).append(code)
        return AttributeTier(
            tier, known.codes, dict(sorted(values.items(), key=lambda one: _spelled(one[0])))
        )


def _spelled(value: Hashable) -> str:
    """A value of an attribute for people; it has its type with it."""
    plain = value[1] if isinstance(value, tuple) else value
    return str(plain).lower() if isinstance(plain, bool) else str(plain)


class Domain(Struct, eq=False):
    """Nodes, and perhaps devices, that share the values of some tiers."""

    grouping: Grouping
    number: int
    """In the grouping"""
    limits: Limits
    most: int
    """Members that fit, at most; lowered by searches"""

    @property
    def met(self) -> tuple[tuple[Tier, str], ...]:
        """The tiers, each with the value that all share."""
        return tuple(zip(self.grouping.met, self.grouping.names[self.number], strict=True))

    def places(self, tiers: Tiers) -> tuple[Rows, ...]:
        """Places in the order in which they are tried: by values of tiers that are not met, large first.

        Places of one part are equal in all of these; policies may order them.
        """
        places = np.flatnonzero(self.grouping.codes == self.number)
        each = self.limits.each.sum(axis=0)
        return spread_last(places, each, self.grouping.met, tiers)


def spread_last(places: Rows, each: Amounts, met: Sequence[Tier], tiers: Tiers) -> tuple[Rows, ...]:
    """Places of one domain in an order that fills the domains of tiers that are not met, large first.

    places (P,)  rising
    each   (N,)  members that fit on each place

    Returns parts in that order. Places of one part are equal in all of these; policies may order them.
    """
    keys: list[np.ndarray] = [places]
    unmet = [tier for tier in tiers.tiers if tier not in met]
    if not unmet:
        return (places,)
    for codes in tiers.labels(unmet):  # the tightest first; the last key counts most
        here = codes[places]
        size = np.bincount(here, weights=each[places]).astype(np.int64)
        keys += [here, -size[here]]
    order = np.lexsort(keys)
    columns = np.array([key[order] for key in keys[1:]]).reshape(-1, len(order))
    starts = np.flatnonzero((columns[:, 1:] != columns[:, :-1]).any(axis=0)) + 1
    return tuple(np.split(places[order], starts))


class Domains:
    """All domains of a question, by the tiers that they meet."""

    def __init__(self, tiers: Tiers, kinds: Sequence[Kind], places: Places, trial: Trial) -> None:
        self._tiers, self._kinds, self._places, self._trial = tiers, kinds, places, trial
        self._of: dict[tuple[Tier, ...], list[Domain]] = {}
        self._limits: Limits | None = None
        self._numbers: Amounts = np.array([len(kind.members) for kind in kinds], dtype=np.int64)

    def meeting(self, met: tuple[Tier, ...]) -> list[Domain]:
        """The domains of some tiers, the smallest first: fewest free devices, then by name."""
        if met not in self._of:
            found = [entry for grouping in self._tiers.groupings(met) for entry in self._in(grouping)]
            found.sort(key=lambda entry: entry[0])
            self._of[met] = [domain for _, domain in found]
        return self._of[met]

    def _in(self, grouping: Grouping) -> list[tuple[tuple[int, tuple[str, ...]], Domain]]:
        limits = self._limits_of(grouping)
        size = len(grouping.names)
        most = limits.in_domains(grouping.codes, size, self._numbers).tolist()
        free = limits.devices_in(grouping.codes, size).tolist()
        return [
            ((free[number], grouping.names[number]), Domain(grouping, number, limits, most[number]))
            for number in range(size)
        ]

    def _limits_of(self, grouping: Grouping) -> Limits:
        def limits() -> Limits:
            snapshot = self._trial.snapshot
            return Limits(self._kinds, self._places.at_first, grouping.devices, self._trial.nodes, snapshot)

        if grouping.devices is not None:
            return limits()
        if self._limits is None:
            self._limits = limits()
        return self._limits
