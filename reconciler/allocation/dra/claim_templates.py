"""What claims ask for, read once for all claims of the same spec: most are made from a few templates."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from reconciler.allocation.dra.match_attribute import Knot, ties_of
from reconciler.allocation.dra.node_filter import Prospects
from reconciler.allocation.dra.refusal import Fatal
from reconciler.allocation.dra.request_options import ParsedClaims, read_claims
from reconciler.allocation.dra.selector_masks import is_overspent, is_quick
from reconciler.api.objects.claims import DeviceClass, ResourceClaim, ResourceClaimSpec
from reconciler.state.caches import Cache
from reconciler.state.devices.snapshot.snapshot import Snapshot, Topology

KEPT = 256
"""Different specs of one topology that are remembered."""

_spelled = ResourceClaimSpec.__pydantic_serializer__.to_json


@dataclass(slots=True)
class Form:
    """Claims of these specs, whatever their names."""

    parsed: ParsedClaims
    """Of the first such claims; only the claims themselves differ"""
    prospects: Prospects
    known: bool = False
    """Whether its selectors were seen to take no time to speak of"""
    _ties: tuple[Knot, ...] | None = None
    _overspent: bool | None = None

    def quick(self, world: Snapshot) -> bool:
        """Whether all selectors have been run on the fleet, or can be without taking long."""
        self.known = self.known or is_quick(self.parsed.slots, world.fleet)
        return self.known

    def overspent(self, world: Snapshot) -> bool:
        """Whether its selectors take more steps on the fleet than a decision may. Runs them."""
        if self._overspent is None:
            self._overspent = is_overspent(self.parsed.slots, world.fleet)
        return self._overspent

    def ties(self, world: Snapshot) -> tuple[Knot, ...]:
        """What its constraints tie, as far as it can exclude nodes."""
        if self._ties is None:
            self._ties = ties_of(self.parsed, world)
        return self._ties


@dataclass(slots=True)
class _Forms:
    """Forms by the text of the specs. They hold for one state of the classes."""

    classes: Mapping[str, DeviceClass] | None = None
    by_spec: OrderedDict[tuple[bytes, ...], Form] = field(default_factory=OrderedDict)


_FORMS: Cache[Topology, _Forms] = Cache(lambda _: _Forms())


def form_of(claims: Sequence[ResourceClaim], world: Snapshot) -> Form:
    """What claims ask for. Raises Fatal for what no node could meet."""
    forms = _FORMS.of(world.topology)
    if forms.classes is not world.classes:
        forms.classes = world.classes
        forms.by_spec.clear()
    try:
        specs = tuple([_spelled(claim.spec) for claim in claims])
    except ValueError:  # text that is not Unicode; it is asked for as seldom as it can be spelled
        return _read(claims, world)
    form = forms.by_spec.get(specs)
    if form is None:
        form = forms.by_spec[specs] = _read(claims, world)
        if len(forms.by_spec) > KEPT:
            forms.by_spec.popitem(last=False)
    forms.by_spec.move_to_end(specs)
    return form


def is_at_hand(claims: Sequence[ResourceClaim], world: Snapshot) -> bool:
    """Whether nothing about the selectors of claims has to be worked out that may take long."""
    try:
        return form_of(claims, world).quick(world)
    except Fatal:
        return True


def _read(claims: Sequence[ResourceClaim], world: Snapshot) -> Form:
    parsed = read_claims(claims, world.classes, world.rules)
    return Form(parsed, Prospects(parsed.slots, world.topology))
