"""Which devices of the fleet, or of one node, match a request option, whatever is held.

Computed once per request option and fleet; the part of a node is a slice of it. The tests are in the order
of SRCH-12. `candidates` adds what depends on held devices.
"""

from collections.abc import Mapping

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from kernels.groups import distinct
from kernels.types import Codes, Mask, Rows
from reconciler.allocation.dra.budget import Fatal
from reconciler.allocation.dra.consumption import Consumption, RequestDraws, consume, request_draws
from reconciler.allocation.dra.request_options import RequestKey, RequestOption
from reconciler.allocation.dra.selector_masks import evaluate_selectors, fails_to_derive
from reconciler.api.objects import semantics
from reconciler.api.objects.claims import DeviceToleration
from reconciler.api.objects.slices import DeviceTaint
from reconciler.state.caches import Cache
from reconciler.state.devices.affinity import CLEAN, Mode, affinity_kinds, mode_of
from reconciler.state.devices.fleet import Fleet
from reconciler.state.devices.occupancy import Occupancy
from reconciler.state.devices.reach import SKIP_OPERATIONS
from reconciler.state.devices.snapshot import Snapshot, View


class RequestModes(Struct, frozen=True):
    """The modes of n devices for one request option."""

    kind: Codes
    """(n,) position in `modes`; -1 for devices that may be shared in any mode"""
    modes: tuple[Mode | str, ...]
    """The mode that the request asks for, or why none can be told"""

    def of(self, view: View) -> "RequestModes":
        """The same for the devices of a view."""
        return replace(self, kind=view.of(self.kind))

    def mode(self, at: int) -> Mode | str | None:
        """The mode in which the device at a position would be shared; None for any."""
        kind = int(self.kind[at])
        return self.modes[kind] if kind >= 0 else None

    @property
    def told(self) -> Mask:
        """(n,) devices for which the request asks for a mode, or needs none."""
        told = [isinstance(mode, tuple) for mode in self.modes]
        return np.array([*told, True], dtype=np.bool_)[self.kind]

    def fit(self, lock: Codes, occupancy: Occupancy, rows: Rows | slice = slice(None)) -> Mask:
        """(m,) of some rows: no holder has locked the device to another mode.

        lock (m,)  what `Occupancy.lock` has of them
        """
        wanted = [occupancy.locks.find(mode) for mode in self.modes]
        kind = self.kind[rows]
        same = lock == np.array([*wanted, CLEAN], dtype=np.int32)[kind]
        return self.told[rows] & ((kind < 0) | (lock == CLEAN) | same)


def request_modes(option: RequestOption, snapshot: Snapshot, matching: Mask) -> RequestModes | None:
    """The modes of the devices in a mask (D,); None if all may be shared in any mode."""
    kinds = affinity_kinds(snapshot.fleet) if snapshot.rules.has(semantics.SHARING_AFFINITY) else None
    if kinds is None or not snapshot.rules.sharing or not (matching & (kinds.of >= 0)).any():
        return None
    modes = [
        mode_of(extractors, tuple([text for of, text in option.key.config if of in ("", driver)]))
        for extractors, driver in zip(kinds.extractors, kinds.drivers, strict=True)
    ]
    return RequestModes(np.where(matching, kinds.of, -1).astype(np.int32), tuple(modes))


Consumptions = Mapping[int, Consumption | Fatal | None]
"""Capacity shape -> what taking such a device consumes; None if its capacity is too small; or an error"""


class StaticMatch(Struct, frozen=True):
    """Masks over the D devices of a fleet, or the n devices of a view."""

    matching: Mask
    """The selectors match and, in a view, the node reaches the device"""
    suitable: Mask
    """Only held devices can prevent that it is taken"""
    fatal: Mask
    """Trying it is an error, unless it is held"""
    underived: Mask | None
    """Suitable, but a derived attribute fails: an error if all else fits (CON-13). None for no device"""
    consumption: Consumptions
    shape: Codes
    """Capacity shape, -1 for devices without capacity"""
    fails: bool
    """Whether some device is an error"""
    skips: bool
    """Whether some device of the fleet skips operations of its node"""
    asks: RequestDraws | None = None
    """What devices draw as the request says; None if it says nothing"""
    modes: RequestModes | None = None
    """The modes in which they would be shared; None for any mode"""

    @property
    def errors(self) -> Mask:
        """Devices that may be an error."""
        return self.fatal if self.underived is None else self.fatal | self.underived


_OF_FLEET: Cache[Fleet, dict[RequestKey, StaticMatch]] = Cache(lambda _: {}, on_fork=dict.copy)
_OF_VIEW: Cache[View, dict[RequestKey, StaticMatch]] = Cache(lambda _: {})


def match_in_view(option: RequestOption, view: View, snapshot: Snapshot) -> StaticMatch:
    """The match of a view's devices."""
    of_view = _OF_VIEW.of(view)
    known = of_view.get(option.key)
    if known is None:
        known = of_view[option.key] = _slice(match_in_fleet(option, snapshot), view, snapshot)
    return known


def _slice(whole: StaticMatch, view: View, snapshot: Snapshot) -> StaticMatch:
    of = view.of
    matching, suitable, fatal = of(whole.matching), of(whole.suitable), of(whole.fatal)
    if not view.whole and not np.logical_and.reduce(view.here):
        # Expressions fail on devices of other nodes too (SEL-4); consumption does not matter there.
        foreign = ~view.here
        fatal = fatal & ~(matching & foreign)
        matching, suitable = matching & view.here, suitable & view.here
    if whole.skips and SKIP_OPERATIONS not in view.node.features:
        suitable = suitable & (of(snapshot.fleet.codes["operations"]) < 0)
    underived = whole.underived
    if underived is not None:
        underived = of(underived) & suitable
    return replace(
        whole,
        matching=matching,
        suitable=suitable,
        fatal=fatal,
        underived=underived,
        shape=of(whole.shape),
        fails=whole.fails and bool(fatal.any() or (underived is not None and underived.any())),
        asks=whole.asks.of(view) if whole.asks is not None else None,
        modes=whole.modes.of(view) if whole.modes is not None else None,
    )


def match_in_fleet(option: RequestOption, snapshot: Snapshot) -> StaticMatch:
    """The match of all devices of the fleet."""
    of_fleet = _OF_FLEET.of(snapshot.fleet)
    if option.key not in of_fleet:
        of_fleet[option.key] = _compute(option, snapshot)
    return of_fleet[option.key]


def _compute(option: RequestOption, snapshot: Snapshot) -> StaticMatch:
    fleet, rules = snapshot.fleet, snapshot.rules
    masks = evaluate_selectors(option, fleet)
    matching, fatal = masks.true, masks.error
    if not rules.binding_conditions:  # SEL-1: such a device is not evaluated
        plain = ~waiting(fleet)
        matching, fatal = matching & plain, fatal & plain
    shape = fleet.codes["shape"]
    consumption = resolve(option, shape[matching], snapshot)
    failed = [code for code, taken in consumption.items() if isinstance(taken, Fatal)]
    if failed:
        fatal = fatal | (matching & np.isin(shape, failed))
    everything = np.arange(fleet.size)
    suitable = (
        matching
        & ~fatal
        & large_enough(option, consumption, shape)
        & taints_permit(option, everything, snapshot)
    )
    if not rules.has(semantics.PARTITIONABLE_DEVICES):
        suitable &= ~draws(fleet, everything)
    asks = request_draws(option.capacity, snapshot, matching)
    if asks is not None:
        suitable &= ~asks.refused
    modes = request_modes(option, snapshot, matching)
    if modes is not None:
        suitable &= modes.told
    underived = fails_to_derive(option, fleet)
    if underived is not None:
        underived &= suitable
        underived = underived if underived.any() else None
    for mask in (matching, suitable, fatal):
        mask.setflags(write=False)
    skips = bool(np.count_nonzero(fleet.codes["operations"] >= 0))
    fails = bool(np.count_nonzero(fatal)) or underived is not None
    return StaticMatch(matching, suitable, fatal, underived, consumption, shape, fails, skips, asks, modes)


def draws(fleet: Fleet, rows: Rows) -> Mask:
    """(n,) whether a device draws from counters, published or not."""
    pieces = [np.any(block.sets >= 0, axis=1) for pool in fleet.pools for block in pool.blocks]
    drawing: Mask = np.concatenate(pieces)[rows] if pieces else np.zeros(len(rows), dtype=np.bool_)
    return drawing


def resolve(
    option: RequestOption, shapes: Codes, snapshot: Snapshot, rules: semantics.Semantics | None = None
) -> dict[int, Consumption | Fatal | None]:
    """What taking a device of each capacity shape (n,) consumes, by the rules of the snapshot or others."""
    found: dict[int, Consumption | Fatal | None] = {}
    rules, known = rules or snapshot.rules, snapshot.fleet.vocabulary.shapes.values
    if not rules.has(semantics.CONSUMABLE_CAPACITY) or not known:
        return found
    codes = distinct(shapes)
    for code in codes[codes >= 0].tolist():
        try:
            found[code] = consume(known[code], option.capacity, rules)
        except Fatal as exc:
            found[code] = exc
    return found


def large_enough(option: RequestOption, consumption: Consumptions, shape: Codes) -> Mask:
    """(n,) the device, with nothing consumed, has the requested capacity (CAP-1, CAP-7, CAP-8)."""
    too_small = [
        code
        for code, taken in consumption.items()
        if taken is None or (isinstance(taken, Consumption) and not taken.fits({}))
    ]
    large = ~np.isin(shape, too_small) if too_small else np.ones(shape.shape, dtype=np.bool_)
    return large & (shape >= 0) if option.capacity else large


def taints_permit(option: RequestOption, rows: Rows, snapshot: Snapshot) -> Mask:
    """(n,) the request option tolerates every repelling taint of the device."""
    permitted = np.ones(len(rows), dtype=np.bool_)
    if snapshot.rules.has(semantics.TAINTS) and snapshot.fleet.vocabulary.taints.values:
        codes = snapshot.fleet.codes["taints"][rows]
        for code in distinct(codes[codes >= 0]).tolist():
            if not tolerated(snapshot.fleet.vocabulary.taints.values[code], option.source.tolerations):
                permitted &= codes != code
    return permitted


def tolerated(taints: tuple[DeviceTaint, ...], tolerations: tuple[DeviceToleration, ...]) -> bool:
    """Whether every repelling taint is tolerated (TNT-1, TNT-8)."""
    repelling = [taint for taint in taints if taint.effect in ("NoSchedule", "NoExecute")]
    return all(any(_tolerates(toleration, taint) for toleration in tolerations) for taint in repelling)


def _tolerates(toleration: DeviceToleration, taint: DeviceTaint) -> bool:
    """TNT-2."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in ("", "Equal") and toleration.value == taint.value


def waiting(fleet: Fleet) -> Mask:
    """(D,) devices with binding conditions."""
    bindings = fleet.vocabulary.bindings.values
    codes = [code for code, binding in enumerate(bindings) if binding.conditions]
    return np.isin(fleet.codes["binding"], codes)
