"""Claims of one plain request, the most frequent ones: their devices on a node are read from a mask.

The answer is that of `node_attempt: attempt`, without its candidates, choices and state.
"""

from dataclasses import dataclass

from kernels.types import Codes, Rows
from reconciler.allocation.dra.availability import Available
from reconciler.allocation.dra.budget import Budget
from reconciler.allocation.dra.constraints import shared_codes
from reconciler.allocation.dra.fast_path import entangled
from reconciler.allocation.dra.node_attempt import Found
from reconciler.allocation.dra.request_options import MAX_RESULTS, ParsedClaims
from reconciler.allocation.dra.result import PlainPlans, has_special_fields
from reconciler.api.objects.claims import ResourceClaim
from reconciler.errors import Rejected
from reconciler.state.devices.snapshot.snapshot import Snapshot, View


@dataclass(frozen=True, slots=True)
class PlainRequest:
    """A number of devices of one node, which may have to share an attribute. Valid for one fleet."""

    count: int
    available: Available
    """Kept current by who asks"""
    codes: Codes | None
    """(D,) the attribute that all devices must share; None without a constraint"""
    plans: PlainPlans

    def attempt(self, claim: ResourceClaim, node: str, snapshot: Snapshot, budget: Budget) -> Found | None:
        """What a node gives a claim; None if `attempt` must be asked for it. Raises what `budget` raises."""
        try:
            view = snapshot.topology.view(node)
        except Rejected:
            return None
        rows = self._rows(view)
        if len(rows) < self.count or has_special_fields(view.fleet, rows):
            return None
        budget.spend()
        return Found((self.plans.plan(claim, view, [rows]),), 0, self.count)

    def _rows(self, view: View) -> list[int]:
        """The rows that first fit takes; too few if it takes others, or none."""
        mask = view.of(self.available.mask)
        if not view.whole:
            mask = mask & view.here
        if self.count == 1 and self.codes is None:
            at = int(mask.argmax()) if len(mask) else 0
            return [view.row(at)] if len(mask) and mask.item(at) else []
        if entangled(view) is not None:  # taking a device may change what else can be taken
            return []
        rows = view.rows[mask.nonzero()[0]]
        if self.codes is not None:
            return self._alike(rows, self.codes)
        first: list[int] = rows[: self.count].tolist()
        return first

    def _alike(self, rows: Rows, codes: Codes) -> list[int]:
        """The first devices that share a value; empty if too few do. The value that comes first wins."""
        listed, values = rows.tolist(), codes[rows].tolist()
        for value in dict.fromkeys(values):
            if value >= 0 and values.count(value) >= self.count:
                alike = [row for row, one in zip(listed, values, strict=True) if one == value]
                return alike[: self.count]
        return []


def plain_request(parsed: ParsedClaims, available: Available, snapshot: Snapshot) -> PlainRequest | None:
    """The only request of the only claim, if it is plain; None for all others.

    Plain: a number of devices of one node each, no alternatives, no error, no result with special fields
    by the node, and no constraint but that all share an attribute with one value a device.
    """
    if len(parsed.claims) != 1 or len(parsed.slots) != 1 or len(parsed.slots[0].options) != 1:
        return None
    (claim,), (option,) = parsed.claims, parsed.slots[0].options
    static, count = available.static, option.source.wanted
    if option.all or option.admin or count > MAX_RESULTS:
        return None
    if static.fails or static.skips or not available.local:
        return None
    codes = None
    if option.constraints:
        attribute = claim.spec.devices.constraints[option.constraints[0]].match_attribute
        if len(option.constraints) > 1 or attribute is None:
            return None
        codes = shared_codes(attribute, snapshot.fleet)
        if codes is None:
            return None
    return PlainRequest(count, available, codes, PlainPlans(claim, [option], snapshot))
