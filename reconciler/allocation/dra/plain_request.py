"""The fast path: claims of one plain request, the most frequent ones. Masks of the fleet give their devices.

Taking a device must not change what else fits. The answer is that of the search, without its candidates,
choices and state.
"""

from collections.abc import Sequence

from msgspec import Struct

from kernels.types import Codes, Mask
from reconciler.allocation.dra.availability import Available
from reconciler.allocation.dra.constraints import shared_codes
from reconciler.allocation.dra.request_options import MAX_RESULTS, ParsedClaims, RequestOption
from reconciler.allocation.dra.result import PlainPlans, has_special_fields
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.plan import Plan
from reconciler.state.caches import Cache, share
from reconciler.state.devices.fleet import Fleet
from reconciler.state.devices.snapshot import Snapshot, View


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
        entangled=_ENTANGLED.of(fleet),
        special=has_special_fields(fleet, slice(None)),
    )


def entangled(view: View) -> Mask | None:
    """(n,) devices that draw from counters, are shared or exclude others: taking one changes what else fits.

    None if the fleet has none.
    """
    found = _ENTANGLED.of(view.fleet)
    return None if found is None else view.of(found)


def _entangled(fleet: Fleet) -> Mask | None:
    """(D,) the same for the whole fleet."""
    found: Mask = fleet.shared | (fleet.sets >= 0).any(axis=1)
    if fleet.exclusion is not None:
        found = found | fleet.exclusion.bound
    return found if found.any() else None


_ENTANGLED = Cache(_entangled, on_fork=share)
