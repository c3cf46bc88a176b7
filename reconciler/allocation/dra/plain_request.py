"""Claims of one plain request, the most frequent ones: their devices on a node are read from masks.

The answer is that of `node_attempt: attempt`, without its candidates, choices and state.
"""

from collections.abc import Sequence

from msgspec import Struct

from kernels.types import Codes
from reconciler.allocation.dra.availability import Available
from reconciler.allocation.dra.budget import UNLIMITED, Budget, Fatal
from reconciler.allocation.dra.constraints import shared_codes
from reconciler.allocation.dra.fast_path import entangled, entangled_anywhere
from reconciler.allocation.dra.node_attempt import NO_BETTER, Found, NotFound
from reconciler.allocation.dra.request_options import MAX_RESULTS, ParsedClaims, RequestOption
from reconciler.allocation.dra.result import PlainPlans, has_special_fields
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.plan import Plan
from reconciler.errors import Rejected
from reconciler.state.devices.snapshot import Snapshot, View

FEW = 64
"""Devices of a node up to which reading each is faster than array calls"""


class PlainOption(Struct, frozen=True):
    """A number of devices, which may have to share an attribute. Valid for one fleet."""

    count: int
    available: Available
    """Kept current by who asks"""
    codes: Codes | None
    """(D,) the attribute that all devices must share; None without a constraint"""
    plans: PlainPlans
    entangled: bool
    """Whether taking some device of the fleet may change what else can be taken"""
    special: bool
    """Whether some result of the fleet has special fields"""

    def plan(self, claim: ResourceClaim, view: View) -> Plan | None:
        """The plan that first fit makes on a node; None if that needs a search, or nothing fits.

        Raises Fatal for a device that a result cannot express (RES-13).
        """
        rows = self.rows(view)
        if not rows or (self.special and has_special_fields(view.fleet, rows)):
            return None
        return self.plans.plan(claim, view, [rows])

    def rows(self, view: View) -> list[int] | None:
        """The rows that first fit takes; empty if a node has too few; None if that needs a search."""
        span, codes = view.span, self.codes
        if span is not None and view.whole:
            start, stop = span.start, span.stop
            if codes is None and (self.count == 1 or not self.entangled):
                return self._first(start, stop)
            if codes is not None and not self.entangled and stop - start <= FEW:
                values, free = codes[start:stop].tolist(), self.available.cells[start:stop]
                listed = [at for at, is_free in enumerate(free) if is_free]
                return self._alike([start + at for at in listed], [values[at] for at in listed])
        mask = view.of(self.available.mask)
        if not view.whole:
            mask = mask & view.here
        if self.count == 1 and codes is None:
            at = int(mask.argmax()) if len(mask) else 0
            return [view.row(at)] if len(mask) and mask.item(at) else []
        rows = view.rows[mask.nonzero()[0]]
        if len(rows) < self.count:
            return []
        if self.entangled and entangled(view) is not None:
            return None
        if codes is not None:
            return self._alike(rows.tolist(), codes[rows].tolist())
        first: list[int] = rows[: self.count].tolist()
        return first

    def _first(self, start: int, stop: int) -> list[int]:
        """The first devices of a range of rows; empty if it has too few."""
        found, find, at = [], self.available.cells.find, start - 1
        for _ in range(self.count):
            at = find(1, at + 1, stop)
            if at < 0:
                return []
            found.append(at)
        return found

    def _alike(self, rows: Sequence[int], values: Sequence[int]) -> list[int]:
        """The first of some devices, given with their values, that share one; empty if too few do.

        The value that comes first wins.
        """
        for value in dict.fromkeys(values):
            if value >= 0 and values.count(value) >= self.count:
                alike = [row for row, one in zip(rows, values, strict=True) if one == value]
                return alike[: self.count]
        return []


class PlainRequest(Struct, frozen=True):
    """The only request of the only claim, with its alternatives in order."""

    options: tuple[PlainOption, ...]
    most: int
    """The largest number of devices of an option"""

    def attempt(
        self,
        claim: ResourceClaim,
        node: str,
        snapshot: Snapshot,
        *,
        least: int = 0,
        better_than: int | None = None,
        budget: Budget = UNLIMITED,
    ) -> Found | NotFound | None:
        """What a node gives a claim; None if `attempt` must be asked for it. Raises what `budget` raises.

        `least` is the first option for which the node may have enough devices. The rest is as for `attempt`.
        """
        try:
            view = snapshot.topology.view(node)
            for rank in range(least, len(self.options)):
                option = self.options[rank]
                rows = option.rows(view)
                if rows is None:
                    return None
                if rows:
                    if option.special and has_special_fields(view.fleet, rows):
                        return None
                    budget.spend()
                    if better_than is not None and rank >= better_than:
                        return NotFound(None, NO_BETTER, option.count)
                    return Found((option.plans.plan(claim, view, [rows]),), rank, option.count)
        except (Rejected, Fatal):
            return None
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
        if len(option.constraints) > 1 or attribute is None:
            return None
        codes = shared_codes(attribute, snapshot.fleet)
        if codes is None:
            return None
    fleet = snapshot.fleet
    plans = PlainPlans(claim, [option], snapshot)
    return PlainOption(
        count, available, codes, plans, entangled_anywhere(fleet), has_special_fields(fleet, slice(None))
    )
