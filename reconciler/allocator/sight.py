"""Which devices of the fleet an ask's selectors let through, and on which they fail. Source: section 7.

Worked out once per list of expressions and fleet: it does not depend on what is allocated (SEL-5).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from kernels.types import Mask
from reconciler.allocator.asks import Ask, read_claims
from reconciler.allocator.refusal import Fatal
from reconciler.cel.program import CelRefused, Selector, compile_selector, spent_on
from reconciler.inventory.fleet import Fleet
from reconciler.inventory.snapshot import Snapshot
from reconciler.objects.claims import ResourceClaim
from reconciler.objects.plan import Reason


@dataclass(frozen=True, slots=True)
class Sight:
    """The outcome of a list of selectors on D devices. Read-only and disjoint."""

    true: Mask
    """(D,) all selectors match"""
    error: Mask
    """(D,) the first selector that does not match fails"""
    fails: bool
    """Whether `error` has any device"""


_kept: WeakKeyDictionary[Fleet, dict[tuple[str, ...], Sight]] = WeakKeyDictionary()


def look(ask: Ask, fleet: Fleet) -> Sight:
    """The outcome of an ask's selectors on the whole fleet."""
    of_fleet = _kept.setdefault(fleet, {})
    expressions = ask.key.expressions
    if expressions not in of_fleet:
        of_fleet[expressions] = _evaluate(expressions, fleet)
    return of_fleet[expressions]


QUICK = 10_000
"""Steps of a pass over the fleet, some milliseconds. Parts of a selector that run over columns take none."""


def warm_up() -> None:
    """What takes long once a process: the parser of selectors, 0.1 s, and a part of NumPy, 10 ms."""
    compile_selector("true")
    np.unique(np.zeros(0))  # imports numpy.ma when it is first called


def look_at_all(claims: Sequence[ResourceClaim], world: Snapshot, wanted: Callable[[], bool]) -> None:
    """Run every selector that a decision about claims needs, for as long as somebody wants it."""
    try:
        asked = read_claims(claims, world.classes, world.rules)
    except Fatal:  # the decision will say so
        return
    for ask in (ask for slot in asked.slots for ask in slot.asks):
        if wanted():
            look(ask, world.fleet)


def is_quick(ask: Ask, fleet: Fleet) -> bool:
    """Whether `look` takes no time to speak of: the outcome is known, or the last pass was a short one.

    A selector may cost more on another fleet than it did on the last; it does so once.
    """
    expressions = ask.key.expressions
    return expressions in _kept.get(fleet, ()) or all(
        0 <= spent_on(expression) <= QUICK for expression in expressions
    )


def _evaluate(expressions: tuple[str, ...], fleet: Fleet) -> Sight:
    alive = np.ones(fleet.size, dtype=np.bool_)
    error = np.zeros(fleet.size, dtype=np.bool_)
    for expression in expressions:
        selector = _compiled(expression)
        if selector is None:
            error |= alive
            alive = np.zeros(fleet.size, dtype=np.bool_)
            break
        masks = selector.masks(fleet.cel)
        error |= alive & masks.error
        alive &= masks.true
    alive.setflags(write=False)
    error.setflags(write=False)
    return Sight(alive, error, fails=bool(error.any()))


def _compiled(expression: str) -> Selector | None:
    """None if it cannot be compiled, which is an error on every device it would be tried on (SEL-3)."""
    try:
        return compile_selector(expression)
    except CelRefused:
        return None


def failure(ask: Ask, fleet: Fleet, row: int) -> Fatal:
    """The error of an ask's selectors on a device where they fail."""
    for use in ask.selectors:
        claim = ask.claim if use.own else None
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
