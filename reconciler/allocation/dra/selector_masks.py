"""Which devices match the selectors of a request option, and on which these fail. Source: SEL-1 to SEL-6.

Computed once per list of expressions and fleet, since it does not depend on allocations (SEL-5).
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

import numpy as np
from msgspec import Struct

from kernels.types import Mask
from reconciler.allocation.dra.budget import Fatal
from reconciler.allocation.dra.request_options import RequestOption, Slot, read_claims
from reconciler.api.objects.claims import ResourceClaim, ResourceClaimSpec
from reconciler.api.objects.plan import Reason
from reconciler.api.objects.semver import Semver
from reconciler.cel.errors import DECISION_COST_LIMIT, MASK_COST_LIMIT, READING_COST
from reconciler.cel.program import (
    FAILS,
    CelRefused,
    DerivedAttribute,
    DerivedColumn,
    Selector,
    compile_derived,
    compile_selector,
    spent_on,
)
from reconciler.state.caches import Cache
from reconciler.state.devices.fleet import Fleet
from reconciler.state.devices.snapshot import Snapshot


class SelectorMasks(Struct, frozen=True):
    """The result of a list of selectors on D devices. The masks are read-only and disjoint."""

    true: Mask
    """(D,) all selectors match"""
    error: Mask
    """(D,) the first selector that does not match fails"""
    fails: bool
    """Whether `error` has any device"""
    spent: tuple[int, ...]
    """Steps of each selector. Beyond DECISION_COST_LIMIT no more selectors run; then the masks are invalid"""


_MASKS: Cache[Fleet, dict[tuple[str, ...], SelectorMasks]] = Cache(lambda _: {}, on_fork=dict.copy)
"""By expressions. `evaluate_all_selectors` adds to it on another thread, without a fork, for all decisions"""


def evaluate_selectors(option: RequestOption, fleet: Fleet) -> SelectorMasks:
    """The masks of a request option's selectors on the whole fleet."""
    return _masks_of(option.key.expressions, fleet)


def _masks_of(expressions: tuple[str, ...], fleet: Fleet) -> SelectorMasks:
    of_fleet = _MASKS.of(fleet)
    if expressions not in of_fleet:
        of_fleet[expressions] = _evaluate(expressions, fleet)
    return of_fleet[expressions]


QUICK = 10_000
"""Steps that a decision may spend on the event loop for selectors: some milliseconds."""
COLUMNS = 50
"""Extra steps for each pass: the parts of a selector that run over columns count none themselves."""
SHARE = MASK_COST_LIMIT // 5
"""Steps for the selectors of one decision before other decisions get theirs: half a second."""


USUAL = (
    """device.driver == 'a' && "b" in device.attributes['a'] && !(device.attributes['a'].?b.orValue(1) < 2)"""
)
"""Has the tokens of most selectors: each pattern is compiled when a text first needs it"""


def warm_up() -> None:
    """Load what is slow once per process: a part of NumPy, 10 ms, the parser of selectors, 5 ms, versions,
    the key of a spec, 2 ms.
    """
    compile_selector(USUAL)
    Semver.parse("0.0.0")
    _ = ResourceClaimSpec().key  # pydantic builds what it needs for it
    np.unique(np.zeros(0))  # imports numpy.ma when it is first called


def evaluate_all_selectors(
    claims: Sequence[ResourceClaim], snapshot: Snapshot, wanted: Callable[[], bool], share: int | None = None
) -> bool:
    """Run every selector that a decision about claims needs, while `wanted` is true.

    Returns whether all ran. Otherwise `share` steps are spent, and the next call continues.
    """
    try:
        parsed = read_claims(claims, snapshot.classes, snapshot.rules)
    except Fatal:  # the decision reports it
        return True
    fleet, spent, bill = snapshot.fleet, 0, _Bill()
    for expressions in _lists(parsed.slots):
        if expressions not in _MASKS.of(fleet):
            for expression in expressions:
                if not wanted() or (share is not None and spent > share):
                    return False
                spent += _run(expression, fleet)
        if bill.exceeded_by(expressions, _masks_of(expressions, fleet).spent):
            return True
    for expression, derived in _derived(parsed.slots).items():
        if not derived.is_cached(fleet.cel):
            if not wanted() or (share is not None and spent > share):
                return False
            spent += derived.column(fleet.cel).spent + COLUMNS + READING_COST * len(expression)
    return True


def is_quick(slots: Sequence[Slot], fleet: Fleet) -> bool:
    """Whether the masks of all slots take little time: they are cached, or the last passes were short.

    A selector may cost more on this fleet than on the last one, but only once.
    """
    return steps_to_run(slots, fleet) <= QUICK


def steps_to_run(slots: Sequence[Slot], fleet: Fleet) -> int:
    """About how many steps a decision takes for masks that are not cached; more than `QUICK` if unknown."""
    kept, steps, bill = _MASKS.of(fleet), 0, _Bill()
    for expressions in _lists(slots):
        known = kept.get(expressions)
        if known is not None:
            if bill.exceeded_by(expressions, known.spent):
                return steps
            continue
        for expression in expressions:
            steps += _expected(spent_on(expression))
    return steps + sum([_expected(d.spent) for d in _derived(slots).values() if not d.is_cached(fleet.cel)])


def _expected(spent: int) -> int:
    """The steps of a pass, from those of the last one."""
    return spent + COLUMNS if spent >= 0 else QUICK + 1


def are_slow(slots: Sequence[Slot]) -> bool:
    """Whether a selector is known to take longer than a decision may spend on the event loop."""
    return any(spent_on(one) > QUICK for expressions in _lists(slots) for one in expressions) or any(
        one.spent > QUICK for one in _derived(slots).values()
    )


def is_overspent(slots: Sequence[Slot], fleet: Fleet) -> bool:
    """Whether the selectors take more steps in total than a decision may use. Runs them until it is known."""
    bill = _Bill()
    return any(
        bill.exceeded_by(expressions, _masks_of(expressions, fleet).spent) for expressions in _lists(slots)
    ) or any(
        bill.exceeded_by((expression,), (derived.column(fleet.cel).spent,))
        for expression, derived in _derived(slots).items()
    )


class _Bill:
    """The total steps of the selectors of a decision, each counted once."""

    def __init__(self) -> None:
        self._counted: set[str] = set()
        self._total = 0

    def exceeded_by(self, expressions: tuple[str, ...], steps: tuple[int, ...]) -> bool:
        """Add the steps of expressions. Returns whether the total is more than a decision may use."""
        for expression, spent in zip(expressions, steps, strict=False):
            if expression not in self._counted:
                self._counted.add(expression)
                self._total += spent
        return self._total > DECISION_COST_LIMIT


def _lists(slots: Sequence[Slot]) -> Iterable[tuple[str, ...]]:
    """The distinct lists of expressions."""
    return dict.fromkeys(option.key.expressions for slot in slots for option in slot.options)


def _derived(slots: Sequence[Slot]) -> dict[str, DerivedAttribute]:
    """The derived attributes of requests that compile, by expression."""
    found: dict[str, DerivedAttribute] = {}
    for expression in [e for slot in slots for option in slot.options for e in option.derived.values()]:
        with suppress(CelRefused):
            found[expression] = compile_derived(expression)
    return found


def evaluate_derived(expression: str, fleet: Fleet) -> DerivedColumn:
    """The values of a derived attribute on the whole fleet. What does not compile fails on every device."""
    try:
        return compile_derived(expression).column(fleet.cel)
    except CelRefused:
        return DerivedColumn(np.full(fleet.size, FAILS, dtype=np.int32), (), 0)


def fails_to_derive(option: RequestOption, fleet: Fleet) -> Mask | None:
    """(D,) devices on which a derived attribute of a request fails; None if it has none."""
    if not option.derived:
        return None
    codes = [evaluate_derived(expression, fleet).codes for expression in option.derived.values()]
    return np.asarray(np.any(np.stack(codes) == FAILS, axis=0))


def _run(expression: str, fleet: Fleet) -> int:
    """Run a selector on the whole fleet. Returns its steps."""
    read = READING_COST * len(expression) if spent_on(expression) < 0 else 0
    selector = _compiled(expression)
    if selector is None or selector.is_cached(fleet.cel):
        return read
    selector.masks(fleet.cel)
    return read + selector.spent + COLUMNS


def _evaluate(expressions: tuple[str, ...], fleet: Fleet) -> SelectorMasks:
    alive = np.ones(fleet.size, dtype=np.bool_)
    error = np.zeros(fleet.size, dtype=np.bool_)
    spent: list[int] = []
    for expression in expressions:
        if sum(spent) > DECISION_COST_LIMIT:
            break
        selector = _compiled(expression)
        if selector is None:
            error |= alive
            alive = np.zeros(fleet.size, dtype=np.bool_)
            break
        masks = selector.masks(fleet.cel)
        spent.append(selector.spent)
        error |= alive & masks.error
        alive &= masks.true
    alive.setflags(write=False)
    error.setflags(write=False)
    return SelectorMasks(alive, error, fails=bool(np.count_nonzero(error)), spent=tuple(spent))


def _compiled(expression: str) -> Selector | None:
    """None if it does not compile, which is an error on every device that it is tried on (SEL-3)."""
    try:
        return compile_selector(expression)
    except CelRefused:
        return None


def failure(option: RequestOption, fleet: Fleet, row: int) -> Fatal:
    """The error of a request option's selectors on a device where they fail."""
    for use in option.selectors:
        claim = option.claim if use.own else None
        try:
            selector = compile_selector(use.expression)
        except CelRefused as refused:
            return Fatal(Reason.CEL_COMPILE, f"{use.where}: {refused}", claim)
        masks = selector.masks(fleet.cel)
        if masks.error[row]:
            problem = selector.explain(fleet.cel, row)
            return Fatal(Reason.CEL_RUNTIME, f"{use.where}: device {fleet.id_of(row)}: {problem}", claim)
        if not masks.true[row]:
            break
    raise AssertionError("no selector fails on this device")


def derived_failure(option: RequestOption, attribute: str, fleet: Fleet, row: int) -> Fatal:
    """The error of a derived attribute on a device where it fails (CON-13)."""
    expression = option.derived[attribute]
    where = f"request {option.name}: derived attribute {attribute}"
    try:
        problem = f"device {fleet.id_of(row)}: {compile_derived(expression).explain(fleet.cel, row)}"
    except CelRefused as refused:
        problem = str(refused)
    return Fatal(Reason.DERIVED_ATTRIBUTE, f"{where}: {problem}", option.claim)
