"""Parsed claims, cached by spec: most claims come from a few templates. Those of one plain request have a
fast path.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from msgspec import Struct, field

from kernels.types import Amounts, Codes, Mask, Rows
from reconciler.allocation.dra.availability import Available, available
from reconciler.allocation.dra.budget import STEPS, Fatal
from reconciler.allocation.dra.constraints import MatchGroup, match_groups, shared_codes
from reconciler.allocation.dra.never_fits import obstacle
from reconciler.allocation.dra.request_options import (
    MAX_RESULTS,
    ParsedClaims,
    RequestOption,
    Slot,
    read_claims,
)
from reconciler.allocation.dra.result import PlainPlans, has_special_fields
from reconciler.allocation.dra.selector_masks import is_overspent, is_quick
from reconciler.api.objects.claims import DeviceClass, ResourceClaim
from reconciler.api.objects.plan import Plan
from reconciler.state.caches import Cache, Recent, derived
from reconciler.state.devices.fleet import Fleet
from reconciler.state.devices.snapshot import Snapshot, Topology, View


class PlainOption(Struct, frozen=True):
    """A number of devices, which may have to share an attribute. Valid for one fleet."""

    count: int
    available: Available
    """Kept current by who asks"""
    codes: Codes | None
    """(D,) the attribute that all devices must share; None without a constraint"""
    plans: PlainPlans
    entangled: Mask | None
    """(D,) see `entangled`; None if there are none"""
    special: bool
    """Whether some result of the fleet has special fields"""

    def rows(self, view: View) -> list[int] | None:
        """The rows that first fit takes; empty if a node has too few; None if that needs a search."""
        mask = view.of(self.available.mask)
        if not view.whole:
            mask = mask & view.here
        places = mask.nonzero()[0]
        if len(places) < self.count:
            return []
        rows = view.rows[places]
        if self.count == 1 and self.codes is None:
            return [rows.item(0)]
        if self.entangled is not None and view.of(self.entangled).any():
            return None
        if self.codes is None:
            first: list[int] = rows[: self.count].tolist()
            return first
        values = self.codes[rows].tolist()
        for value in dict.fromkeys(values):  # the value that comes first wins
            if value >= 0 and values.count(value) >= self.count:
                return [row for row, one in zip(rows.tolist(), values, strict=True) if one == value][
                    : self.count
                ]
        return []


class PlainRequest(Struct, frozen=True):
    """The only request of the only claim, with its alternatives in order."""

    options: tuple[PlainOption, ...]
    most: int
    """The largest number of devices of an option"""

    def first_fit(self, claim: ResourceClaim, view: View, least: int = 0) -> tuple[Plan, int] | None:
        """The plan of a claim on a node, and the position of the option; None if that needs a search.

        `least` is the first option for which the node may have enough devices. Raises Fatal for a device that
        a result cannot express (RES-13).
        """
        for rank in range(least, len(self.options)):
            option = self.options[rank]
            rows = option.rows(view)
            if rows is None or (option.special and rows and has_special_fields(view.fleet, rows)):
                return None
            if rows:
                return option.plans.plan(claim, view, [rows], local=option.available.local), rank
        return None


def plain_request(
    parsed: ParsedClaims, available: Sequence[Available], snapshot: Snapshot
) -> PlainRequest | None:
    """The only request of the only claim, if all its options are plain; None for all others.

    Plain: a number of devices, no error, no result with special fields by the node, and no constraint but
    that all share an attribute with one value a device.

    available  of each option
    """
    if len(parsed.claims) != 1 or len(parsed.slots) != 1:
        return None
    (claim,), (slot,) = parsed.claims, parsed.slots
    options: list[PlainOption] = []
    for option, of_option in zip(slot.options, available, strict=True):
        plain = _plain_option(claim, option, of_option, snapshot)
        if plain is None:
            return None
        options.append(plain)
    return PlainRequest(tuple(options), max((option.count for option in options), default=0))


def _plain_option(
    claim: ResourceClaim, option: RequestOption, available: Available, snapshot: Snapshot
) -> PlainOption | None:
    static, count = available.static, option.source.wanted
    if option.all or option.admin or not 0 < count <= MAX_RESULTS or static.fails or static.skips:
        return None
    codes = None
    if option.constraints:
        attribute = claim.spec.devices.constraints[option.constraints[0]].match_attribute
        if len(option.constraints) > 1 or attribute is None or option.derived:
            return None
        codes = shared_codes(attribute, snapshot.fleet)
        if codes is None:
            return None
    fleet = snapshot.fleet
    return PlainOption(
        count=count,
        available=available,
        codes=codes,
        plans=PlainPlans(claim, [option], snapshot),
        entangled=_entangled(fleet),
        special=has_special_fields(fleet, slice(None)),
    )


def entangled(view: View) -> Mask | None:
    """(n,) devices that draw from counters, are shared or exclude others: taking one changes what else fits.

    None if the fleet has none.
    """
    found = _entangled(view.fleet)
    return None if found is None else view.of(found)


@derived
def _entangled(fleet: Fleet) -> Mask | None:
    """(D,) the same for the whole fleet."""
    found: Mask = fleet.shared | (fleet.sets >= 0).any(axis=1)
    if fleet.exclusion is not None:
        found = found | fleet.exclusion.bound
    return found if found.any() else None


class _OptionCounts(Struct):
    """The counts for one request option."""

    option: RequestOption
    wanted: Amounts
    """() devices that a node must have; 0 for mode All, which has no minimum. An int compares slower"""
    current: Available | None = None
    selected: tuple[Rows, Rows] | None = None
    """(M,) positions of nodes and (M,) codes of the selectors of its devices that match them; None without"""

    @classmethod
    def of(cls, option: RequestOption) -> "_OptionCounts":
        return cls(option, np.array(0 if option.all else option.source.wanted))

    def follow(self, snapshot: Snapshot) -> bool:
        """Update the counts; return whether they are other counts than before."""
        current = self.current
        if current is not None and current.reaches(snapshot):
            current.follow(snapshot)
            return False
        current = self.current = available(self.option, snapshot)
        self.selected = None
        if not current.local:
            nodes, selectors = snapshot.topology.selected.pairs
            kept = np.isin(selectors, snapshot.fleet.codes["selector"][current.concerned])
            self.selected = nodes[kept].astype(np.intp), selectors[kept].astype(np.intp)
        return True


class NodeFilter:
    """N nodes, in the order in which they are tried. Valid for one topology."""

    def __init__(self, slots: Sequence[Slot], topology: Topology) -> None:
        self._counts = [[_OptionCounts.of(option) for option in slot.options] for slot in slots]
        self._options = [counts for of_slot in self._counts for counts in of_slot]
        self._codes: Rows = np.maximum(topology.order_codes, -1).astype(np.intp)
        size = len(self._codes)
        self.open: Mask = np.ones(size, dtype=np.bool_)
        """(N,) has enough devices for each request alone, or may meet an error"""
        self.failing: Mask = np.zeros(size, dtype=np.bool_)
        """(N,) may meet an error, which must be reported"""
        self.least: Amounts | None = None
        """(N,) the best rank that a node could give; None without alternatives"""
        self.generation = 0
        """Rises when other counts than before are followed"""
        self._serial = -1
        """The changes that the masks know"""
        self._plain = False
        """Whether comparing counts is enough: no alternatives and no errors"""
        if any(len(slot.options) > 1 for slot in slots):
            self.least = np.zeros(size, dtype=np.int64)

    @property
    def of_only_slot(self) -> tuple[Available, ...]:
        """What is available for each option, as of the last `follow`; empty if there are several slots."""
        return tuple([_current(counts) for counts in self._options]) if len(self._counts) == 1 else ()

    def follow(self, snapshot: Snapshot) -> None:
        """Update all masks to a snapshot."""
        renewed = False
        for counts in self._options:
            renewed |= counts.follow(snapshot)
        if renewed:
            self.generation += 1
            self.failing = np.zeros(len(self._codes), dtype=np.bool_)
            for counts in self._options:
                self.failing |= _current(counts).failing[self._codes]
            self._plain = bool(self._counts) and self.least is None and not self.failing.any()
        if renewed or self._serial != snapshot.occupancy.serial:
            self._serial = snapshot.occupancy.serial
            self._judge()

    def _judge(self) -> None:
        if self._plain:
            self.open = self._suffices(self._counts[0][0])
            for (counts,) in self._counts[1:]:
                self.open &= self._suffices(counts)
            return
        size = len(self._codes)
        self.open = np.ones(size, dtype=np.bool_)
        least = np.full(size, len(self._options))
        for of_slot in self._counts:
            enough = np.zeros(size, dtype=np.bool_)
            for counts in of_slot:
                enough |= self._suffices(counts)
                least -= enough  # the rank is how many alternatives come before one that suffices
            self.open &= enough
        if np.count_nonzero(self.failing):
            self.open |= self.failing
            least[self.failing] = 0  # the rank behind an error is not known
        if self.least is not None:
            self.least = least

    def _suffices(self, counts: _OptionCounts) -> Mask:
        """(N,) nodes with enough devices for a request option."""
        current = _current(counts)
        if current.local:  # fewer numbers are compared than looked up
            return (current.per_node >= counts.wanted).take(self._codes)
        have = current.per_node[self._codes] + current.spanning
        if counts.selected is not None:
            nodes, selectors = counts.selected
            have = have + np.bincount(nodes, current.per_selector[selectors], len(have))
        enough: Mask = have >= counts.wanted
        return enough

    def in_order(self, among: Mask) -> Iterator[tuple[int, int]]:
        """(best possible rank, place) of nodes, the best rank first, then in order of nodes.

        among (N,)  a part of `open`
        """
        if self.least is not None:
            found = np.flatnonzero(among)
            ranks = self.least[found]
            if ranks.any():
                first = int(ranks.argmin())
                yield ranks.item(first), found.item(first)
                for at in np.argsort(ranks, kind="stable").tolist():
                    if at != first:
                        yield ranks.item(at), found.item(at)
                return
        at, size = 0, len(among)
        while at < size:  # lazy: mostly only the first is used
            at += int(among[at:].argmax())
            if not among[at]:
                return
            yield 0, at
            at += 1


def _current(counts: _OptionCounts) -> Available:
    assert counts.current is not None
    return counts.current


KEPT = 128
"""Specs that are cached for one topology, at least."""


class ClaimShape(Struct):
    """All claims of equal specs, whatever their names."""

    parsed: ParsedClaims
    """Of the first such claims; others differ only in `claims`"""
    node_filter: NodeFilter
    known: bool = False
    """Whether its selectors are known to take little time"""
    _match_groups: tuple[MatchGroup, ...] | None = None
    _obstacle: tuple[bool, str] | None = None
    _overspent: bool | None = None
    _plain: PlainRequest | None = None
    _plain_of: int = -1
    """The generation of the node filter for which `_plain` was computed"""

    def quick(self, snapshot: Snapshot) -> bool:
        """Whether all selectors ran on the fleet already, or take little time."""
        self.known = self.known or is_quick(self.parsed.slots, snapshot.fleet)
        return self.known

    def overspent(self, snapshot: Snapshot) -> bool:
        """Whether its selectors take more steps on the fleet than a decision may use. Runs them."""
        if self._overspent is None:
            self._overspent = is_overspent(self.parsed.slots, snapshot.fleet)
        return self._overspent

    def plain(self, snapshot: Snapshot, steps: int = STEPS) -> PlainRequest | None:
        """Its only request, if that is plain and no alternative takes more than so many devices.

        The node filter must have followed the snapshot.
        """
        if self._plain_of != self.node_filter.generation:
            self._plain_of = self.node_filter.generation
            self._plain = plain_request(self.parsed, self.node_filter.of_only_slot, snapshot)
        return self._plain if self._plain is not None and self._plain.most <= steps else None

    def match_groups(self, snapshot: Snapshot) -> tuple[MatchGroup, ...]:
        """The groups of its `matchAttribute` constraints that can exclude nodes."""
        if self._match_groups is None:
            self._match_groups = match_groups(self.parsed, snapshot)
        return self._match_groups

    def obstacle(self, snapshot: Snapshot) -> tuple[bool, str]:
        """Whether no devices of the fleet can meet a constraint together, and what is in the way."""
        if self._obstacle is None:
            self._obstacle = obstacle(self.parsed, snapshot)
        return self._obstacle


class _ClaimShapes(Struct):
    """Shapes by the JSON of the specs. Valid for one state of the classes."""

    classes: Mapping[str, DeviceClass] | None = None
    by_spec: Recent[tuple[bytes | None, ...], ClaimShape] = field(default_factory=lambda: Recent(KEPT))


_SHAPES: Cache[Topology, _ClaimShapes] = Cache(lambda _: _ClaimShapes())


def claim_shape(claims: Sequence[ResourceClaim], snapshot: Snapshot) -> ClaimShape:
    """The shape of claims. Raises Fatal for a claim that no node can meet."""
    shapes = _SHAPES.of(snapshot.topology)
    if shapes.classes is not snapshot.classes:
        shapes.classes = snapshot.classes
        shapes.by_spec.clear()
    specs = (claims[0].spec.key,) if len(claims) == 1 else tuple([claim.spec.key for claim in claims])
    if None in specs:
        return _read(claims, snapshot)
    return shapes.by_spec.of(specs, lambda: _read(claims, snapshot))


def selectors_are_quick(claims: Sequence[ResourceClaim], snapshot: Snapshot) -> bool:
    """Whether the selectors of claims ran already, or take little time."""
    try:
        return claim_shape(claims, snapshot).quick(snapshot)
    except Fatal:
        return True


def _read(claims: Sequence[ResourceClaim], snapshot: Snapshot) -> ClaimShape:
    parsed = read_claims(claims, snapshot.classes, snapshot.rules)
    return ClaimShape(parsed, NodeFilter(parsed.slots, snapshot.topology))
