"""What a claim can never get, even if nothing were held: waiting does not help then.

All devices and nodes of the fleet count, also those that the pod may not use now.
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from kernels.fit import fits
from kernels.types import Rows
from reconciler.allocation.dra.budget import Fatal
from reconciler.allocation.dra.constraints import Constraint, Tokens, compile_constraint, derived_by
from reconciler.allocation.dra.request_options import ParsedClaims, RequestKey, RequestOption
from reconciler.allocation.dra.selector_masks import evaluate_selectors
from reconciler.allocation.dra.static_match import large_enough, match_in_fleet, resolve
from reconciler.api.objects.semantics import PARTITIONABLE_DEVICES
from reconciler.state.caches import Cache
from reconciler.state.devices.fleet import Fleet
from reconciler.state.devices.readiness import NodeReach
from reconciler.state.devices.snapshot import Snapshot, Topology


def lacking(option: RequestOption, snapshot: Snapshot) -> str:
    """What matching devices lack for a request, even if all are free; empty if they may be enough."""
    known, wanted = _LACKING.of(snapshot.topology), 1 if option.all else option.source.wanted
    if (option.key, wanted) not in known:
        known[option.key, wanted] = _lacking(option, wanted, snapshot)
    return known[option.key, wanted]


_LACKING: Cache[Topology, dict[tuple[RequestKey, int], str]] = Cache(lambda _: {}, on_fork=dict.copy)


def _lacking(option: RequestOption, wanted: int, snapshot: Snapshot) -> str:
    fleet = snapshot.fleet
    rows = np.flatnonzero(evaluate_selectors(option, fleet).true)
    if len(rows) < wanted:
        return ""  # a reason of its own
    shape = fleet.codes["shape"][rows]
    try:
        able = rows[large_enough(option, resolve(option, shape, snapshot), shape)]
    except Fatal:
        return ""
    if (asks := match_in_fleet(option, snapshot).asks) is not None:
        able = able[~asks.refused[able]]
    if len(able) < wanted:
        return f"{_devices(able)} large enough"
    if snapshot.rules.has(PARTITIONABLE_DEVICES):
        able = able[fits(fleet.totals, fleet.table, fleet.sets[able], fleet.draws[able])]
        if len(able) < wanted:
            return f"{_devices(able)} covered by the counters that their pools publish"
    most = int(NodeReach(snapshot.topology, None).counts(able).max(initial=0))
    return f"at most {most} of these devices are on one node" if most < wanted else ""


def _devices(able: Rows) -> str:
    return f"{len(able)} matching device{' is' if len(able) == 1 else 's are'}"


def obstacle(parsed: ParsedClaims, snapshot: Snapshot) -> tuple[bool, str]:
    """Whether no devices of the fleet can meet a constraint together, and why; if some may, how many devices
    lack its attribute. Requests with alternatives are not looked at.
    """
    fleet, partly = snapshot.fleet, ""
    every = np.arange(fleet.size)
    known: dict[tuple[str | None, str | None, tuple[str, ...]], Constraint] = {}
    matching: dict[object, _Matching] = {}
    for at, claim in enumerate(parsed.claims):
        for number, source in enumerate(claim.spec.devices.constraints):
            derived = derived_by(parsed, at, source)
            key = source.match_attribute, source.distinct_attribute, derived
            if key not in known:
                known[key] = compile_constraint(source, fleet, every, snapshot.rules, derived)
            constraint = known[key]
            options = [
                slot.options[0]
                for slot in parsed.slots
                if slot.claim == at and len(slot.options) == 1 and number in slot.options[0].constraints
            ]
            found = []
            for option in options:
                seen = constraint.attribute, derived, option.derived.get(constraint.attribute)
                if (of_option := (*seen, option.key.expressions)) not in matching:
                    matching[of_option] = _matching(constraint, option, fleet)
                found.append((option, matching[of_option]))
            why = next(_obstacles(constraint, found, fleet), "")
            if why:
                return True, f"the constraint on {constraint.attribute} can never hold: {why}"
            partly = partly or next(_lacking_it(constraint, found), "")
    return False, partly


class _Matching(NamedTuple):
    """The devices that a request matches, by their values of an attribute."""

    rows: Rows
    lacking: int
    """How many have no value"""
    present: list[int]
    """The codes of the values"""
    values: Tokens
    """The codes, too, if the constraint is plain: then equal codes are equal values"""


def _matching(constraint: Constraint, option: RequestOption, fleet: Fleet) -> _Matching:
    rows = evaluate_selectors(option, fleet).true.nonzero()[0]
    lacking, *counts = np.bincount(np.maximum(constraint.of(option)[rows], -1) + 1, minlength=1).tolist()
    present = [code for code, count in enumerate(counts) if count]
    values = frozenset(present) if constraint.plain else _tokens(constraint, present)
    return _Matching(rows, lacking, present, values)


Found = Sequence[tuple[RequestOption, _Matching]]


def _lacking_it(constraint: Constraint, found: Found) -> Iterator[str]:
    for option, of in found:
        if of.lacking:
            which = f"devices that request {option.name} matches"
            has = "has" if of.lacking == 1 else "have"
            yield f"{of.lacking} of {len(of.rows)} {which} {has} no {constraint.attribute}"


def _obstacles(constraint: Constraint, found: Found, fleet: Fleet) -> Iterator[str]:
    values: dict[str, Tokens] = {}
    for option, of in found:
        values[option.name] = of.values
        if len(of.rows) and not of.present:
            elsewhere = _elsewhere(constraint, of.rows, fleet)
            yield f"no device that request {option.name} matches has it{elsewhere}"
        if not of.present or not constraint.alone.isdisjoint(of.present):
            return  # what such values match is another question
    wanted = sum(option.source.wanted for option, _ in found if not option.all)
    if not constraint.match:
        different = len(frozenset().union(*values.values()))
        if different < wanted:
            yield f"{wanted} devices must differ in it, and it has {different} different values"
        return
    (first, mine), *others = values.items() or [("", frozenset())]
    for name, theirs in others:
        if not mine & theirs:
            one, other = [_type(_tokens(constraint, of) if constraint.plain else of) for of in (mine, theirs)]
            if one != other:
                yield f"it is {one} on devices of request {first}, and {other} on those of {name}"
            yield f"devices of requests {first} and {name} have no value of it in common"


def _tokens(constraint: Constraint, codes: Iterable[Hashable]) -> Tokens:
    """The values of some codes."""
    tokens = constraint.tokens
    return frozenset().union(*[tokens[code] for code in codes if isinstance(code, int)])


def _type(values: Tokens) -> str:
    """`an int`, or `a string or a version`."""
    kinds = sorted({str(value[0]) for value in values if isinstance(value, tuple)})
    return " or ".join(f"an {kind}" if kind[:1] in "aeiou" else f"a {kind}" for kind in kinds)


def _elsewhere(constraint: Constraint, rows: Rows, fleet: Fleet) -> str:
    """The same name in other domains."""
    name = constraint.attribute.rpartition("/")[2]
    found = [
        f"{domain}/{other}"
        for (domain, other), column in fleet.cel.attributes.items()
        if other == name and (column.codes[rows] >= 0).any()
    ]
    return f"; they have {', '.join(sorted(found))}" if found else ""
