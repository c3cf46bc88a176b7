"""Parsed claims, cached by spec: most claims come from a few templates."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from operator import is_not

from msgspec import Struct, field

from reconciler.allocation.defaults import STEPS
from reconciler.allocation.dra.availability import Available
from reconciler.allocation.dra.match_attribute import MatchGroup, match_groups
from reconciler.allocation.dra.node_filter import NodeFilter
from reconciler.allocation.dra.plain_request import PlainOption, PlainRequest, plain_request
from reconciler.allocation.dra.refusal import Fatal
from reconciler.allocation.dra.request_options import ParsedClaims, read_claims
from reconciler.allocation.dra.selector_masks import is_overspent, is_quick
from reconciler.api.objects.claims import DeviceClass, ResourceClaim
from reconciler.state.caches import Cache
from reconciler.state.devices.snapshot.snapshot import Snapshot, Topology

KEPT = 256
"""Specs that are cached for one topology."""


class ClaimShape(Struct):
    """All claims of equal specs, whatever their names."""

    parsed: ParsedClaims
    """Of the first such claims; others differ only in `claims`"""
    node_filter: NodeFilter
    known: bool = False
    """Whether its selectors are known to take little time"""
    _match_groups: tuple[MatchGroup, ...] | None = None
    _overspent: bool | None = None
    _plain: PlainRequest | None = None
    _plain_of: tuple[Available, ...] = ()
    """For what `_plain` was computed"""
    _only: PlainOption | None = None
    """The only option of `_plain`, once it is known that nothing but counts excludes nodes"""

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
        available = self.node_filter.of_only_slot
        if len(available) != len(self._plain_of) or any(map(is_not, available, self._plain_of)):
            self._plain_of = available
            self._plain, self._only = plain_request(self.parsed, available, snapshot), None
        if self._only is None and self._plain is not None and len(self._plain.options) == 1:
            at_once = self._overspent is False and not self.match_groups(snapshot)
            self._only = self._plain.options[0] if at_once else None
        return self._plain if self._plain is not None and self._plain.most <= steps else None

    def only_option(self, snapshot: Snapshot) -> PlainOption | None:
        """Its only option in a snapshot, which the node filter follows; None if `plain` must be asked.

        The first node that the filter leaves is the one to ask: constraints exclude none, and the selectors
        ran on the fleet, in few enough steps.
        """
        option = self._only
        if option is None:
            return None
        self.node_filter.follow(snapshot)
        return option if option.available is self.node_filter.of_only_option else None

    def match_groups(self, snapshot: Snapshot) -> tuple[MatchGroup, ...]:
        """The groups of its `matchAttribute` constraints that can exclude nodes."""
        if self._match_groups is None:
            self._match_groups = match_groups(self.parsed, snapshot)
        return self._match_groups


class _ClaimShapes(Struct):
    """Shapes by the JSON of the specs. Valid for one state of the classes."""

    classes: Mapping[str, DeviceClass] | None = None
    by_spec: OrderedDict[tuple[bytes | None, ...], ClaimShape] = field(default_factory=OrderedDict)


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
    shape = shapes.by_spec.get(specs)
    if shape is None:
        shape = shapes.by_spec[specs] = _read(claims, snapshot)
        if len(shapes.by_spec) > KEPT:
            shapes.by_spec.popitem(last=False)
    else:
        shapes.by_spec.move_to_end(specs)
    return shape


def selectors_are_quick(claims: Sequence[ResourceClaim], snapshot: Snapshot) -> bool:
    """Whether the selectors of claims ran already, or take little time."""
    try:
        return claim_shape(claims, snapshot).quick(snapshot)
    except Fatal:
        return True


def _read(claims: Sequence[ResourceClaim], snapshot: Snapshot) -> ClaimShape:
    parsed = read_claims(claims, snapshot.classes, snapshot.rules)
    return ClaimShape(parsed, NodeFilter(parsed.slots, snapshot.topology))
