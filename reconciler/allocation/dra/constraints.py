"""`matchAttribute` and `distinctAttribute` as masks over one node's devices. Source: CON-1 to CON-8.

The state of a constraint is a value: the search leaves a branch without undoing anything.
"""

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeGuard

import numpy as np
from msgspec import Struct

from kernels.fit import NOTHING_REQUIRED, fits_required
from kernels.groups import distinct, group_code, group_min
from kernels.types import Amounts, Codes, Mask, Rows
from reconciler.allocation.dra.availability import available, value_count
from reconciler.allocation.dra.request_options import ParsedClaims, RequestOption
from reconciler.allocation.dra.selector_masks import evaluate_derived, evaluate_selectors
from reconciler.api.objects.claims import DeviceConstraint
from reconciler.api.objects.semantics import LIST_ATTRIBUTES, Semantics
from reconciler.state.caches import Cache
from reconciler.state.devices.encoding.vocabulary import Name
from reconciler.state.devices.fleet import Fleet
from reconciler.state.devices.snapshot import Snapshot

Tokens = frozenset[Hashable]
State = Tokens | None
"""match: values that all chosen devices share; distinct: values of any of them. None: none chosen yet."""

ANY_DOMAIN = "*"
"""Stands for every domain; the API allows no such name"""
_SCALARS = ("string", "int", "bool", "version")
_ELEMENT = {"strings": "string", "ints": "int", "bools": "bool", "versions": "version"}


@dataclass(slots=True)
class Constraint:
    """One constraint of a claim over the n devices of a view. Caches its masks."""

    attribute: str
    match: bool
    """All must share a value; otherwise all must differ."""
    codes: Codes
    """(n,) the attribute's value, -1 where the device has none"""
    derived: Mapping[str, Codes]
    """Expression of a derived attribute -> (n,) its value, FAILS where it fails (CON-12)"""
    keys: Sequence[Hashable]
    """By code, the value with its type; later values are appended"""
    lists: bool
    """Whether list attributes are supported (CON-6)"""
    plain: bool
    """Every device has one comparable value or none"""
    _tokens: dict[int, Tokens] | None = field(default=None, repr=False)
    _allowed: dict[tuple[State, str | None], Mask] = field(default_factory=dict, repr=False)

    @property
    def columns(self) -> list[Codes]:
        """(n,) each: what requests may see of a device."""
        return [self.codes, *self.derived.values()]

    def of(self, option: RequestOption) -> Codes:
        """(n,) the values that a request sees: a derived attribute hides that of the device."""
        return self.derived[option.derived[self.attribute]] if self._hides(option) else self.codes

    def _hides(self, option: RequestOption | None) -> TypeGuard[RequestOption]:
        return option is not None and bool(option.derived) and self.attribute in option.derived

    @property
    def tokens(self) -> dict[int, Tokens]:
        """Code -> the values it stands for; empty for a value that cannot be compared."""
        if self._tokens is None:
            seen = np.concatenate(self.columns) if self.derived else self.codes
            codes = distinct(seen[seen >= 0]).tolist()
            self._tokens = {code: _tokens(self.keys[code], lists=self.lists) for code in codes}
        return self._tokens

    @property
    def alone(self) -> frozenset[int]:
        """Codes that match no other device: lists, where lists are not supported (CON-6)."""
        if self.plain or self.lists or not self.match:
            return frozenset()
        return frozenset(code for code, values in self.tokens.items() if not values)

    def allowed(self, state: State, option: RequestOption | None = None) -> Mask:
        """(n,) the devices that could be chosen next for a request; None is one that derives nothing."""
        expression = option.derived[self.attribute] if self._hides(option) else None
        known = self._allowed.get((state, expression))
        if known is None:
            codes = self.codes if expression is None else self.derived[expression]
            known = self._allowed[state, expression] = self._judge(state, codes)
        return known

    def _judge(self, state: State, codes: Codes) -> Mask:
        if state is None and self.plain:
            return codes >= 0
        fine = [code for code, tokens in self.tokens.items() if self._admits(code, tokens, state)]
        return codes == fine[0] if len(fine) == 1 else np.isin(codes, fine)

    def after(self, state: State, row: int, option: RequestOption) -> State:
        """The state once the device in `row` is chosen for a request."""
        code = int(self.of(option)[row])
        if self.match:
            if code in self.alone:
                return frozenset()
            return self.tokens[code] if state is None else state & self.tokens[code]
        return self.tokens[code] | (state or frozenset())

    def _admits(self, code: int, tokens: Tokens, state: State) -> bool:
        if self.match:
            if state is None:
                return bool(tokens) or code in self.alone
            return bool(tokens & state)
        return bool(tokens) and (state is None or not tokens & state)


def compile_constraint(
    source: DeviceConstraint, fleet: Fleet, rows: Rows, rules: Semantics, derived: Collection[str] = ()
) -> Constraint:
    """A constraint over the devices in `rows` (n,), of requests with these expressions for its attribute."""
    attribute = source.match_attribute or source.distinct_attribute or ""
    domain, _, name = attribute.partition("/")
    match = source.match_attribute is not None
    lists = rules.has(LIST_ATTRIBUTES)
    if domain == ANY_DOMAIN:
        codes, keys = _of_any_domain(name, fleet, rows)
        plain = all(_is_scalar(keys[code]) for code in distinct(codes[codes >= 0]).tolist())
    elif (column := fleet.cel.attributes.get((domain, name))) is not None:
        codes, keys = column.codes[rows], fleet.vocabulary.attribute(Name(domain, name)).keys
        plain = all_scalar(Name(domain, name), fleet) or all(
            _is_scalar(keys[code]) for code in distinct(codes[codes >= 0]).tolist()
        )
    else:
        codes, keys, plain = np.full(len(rows), -1, dtype=np.int32), [], True
    if not derived:
        return Constraint(attribute, match, codes, {}, keys, lists, plain)
    places: dict[Hashable, int] = {}
    codes = _renumbered(codes, keys, places)
    found = {expression: evaluate_derived(expression, fleet) for expression in derived}
    of_requests = {name: _renumbered(one.codes[rows], one.keys, places) for name, one in found.items()}
    plain = all(map(_is_scalar, places))
    return Constraint(attribute, match, codes, of_requests, list(places), lists, plain)


def derived_by(parsed: ParsedClaims, at: int, source: DeviceConstraint) -> tuple[str, ...]:
    """The expressions that requests of a claim have for the attribute of a constraint."""
    name = source.match_attribute or source.distinct_attribute or ""
    return tuple(
        dict.fromkeys([
            option.derived[name]
            for slot in parsed.slots
            if slot.claim == at
            for option in slot.options
            if name in option.derived
        ])
    )  # fmt: skip


def _renumbered(codes: Codes, keys: Sequence[Hashable], places: dict[Hashable, int]) -> Codes:
    """(n,) codes of `places`, which grows, instead of `keys`; negative codes stay."""
    known = distinct(codes[codes >= 0])
    if not len(known):
        return codes
    fresh = [places.setdefault(keys[code], len(places)) for code in known.tolist()]
    return np.where(codes < 0, codes, np.array(fresh, dtype=np.int32)[np.searchsorted(known, codes)])


_ALL_SCALAR: Cache[Fleet, dict[Name, tuple[int, bool]]] = Cache(lambda _: {}, on_fork=dict.copy)
"""Attribute -> how many of its values were checked, and whether all of those are scalars"""


def all_scalar(name: Name, fleet: Fleet) -> bool:
    """Whether all values of an attribute are scalars. Checks only the values added since the last call."""
    keys = fleet.vocabulary.attribute(name).keys
    of_fleet = _ALL_SCALAR.of(fleet)
    checked, scalar = of_fleet.get(name, (0, True))
    if checked < len(keys):
        scalar = scalar and all(_is_scalar(key) for key in keys[checked:])
        of_fleet[name] = len(keys), scalar
    return scalar


def shared_codes(attribute: str, fleet: Fleet) -> Codes | None:
    """(D,) codes of an attribute of which devices have one value or none; None for any other."""
    domain, _, id_ = attribute.partition("/")
    if domain == ANY_DOMAIN:
        known = _OF_ANY_DOMAIN.of(fleet)
        if id_ not in known:
            codes, keys = _of_any_domain(id_, fleet, np.arange(fleet.size))
            known[id_] = codes if all(map(_is_scalar, keys)) else None
        return known[id_]
    if (column := fleet.cel.attributes.get((domain, id_))) is None:
        return None
    return column.codes if all_scalar(Name(domain, id_), fleet) else None


_OF_ANY_DOMAIN: Cache[Fleet, dict[str, Codes | None]] = Cache(lambda _: {}, on_fork=dict.copy)


def _is_scalar(key: Hashable) -> bool:
    return isinstance(key, str) or (isinstance(key, tuple) and key[0] in _SCALARS)


def _of_any_domain(name: str, fleet: Fleet, rows: Rows) -> tuple[Codes, list[Hashable]]:
    """(n,) codes of an attribute in any domain, and the values they stand for, each once.

    A device with the attribute in several domains has the value of the last domain by name.
    """
    codes, places = np.full(len(rows), -1, dtype=np.int32), dict[Hashable, int]()
    for domain, id_ in sorted(fleet.cel.attributes):
        if id_ == name:
            here = fleet.cel.attributes[domain, id_].codes[rows]
            keys = fleet.vocabulary.attribute(Name(domain, id_)).keys
            place = np.array([places.setdefault(key, len(places)) for key in keys], dtype=np.int32)
            codes = np.where(here >= 0, place.take(here, mode="clip"), codes) if len(place) else codes
    return codes, list(places)


def _tokens(key: Hashable, *, lists: bool) -> Tokens:
    """The values that an attribute stands for, each with its type: 1 and true are not equal."""
    match key:
        case str():
            return frozenset([("string", key)])
        case (str(kind), tuple(elements)) if kind in _ELEMENT:
            return frozenset((_ELEMENT[kind], element) for element in elements) if lists else frozenset()
        case (_, _):
            return frozenset([key])
    return frozenset()


class ValueBound(Struct, frozen=True):
    """The least that one device for a request option draws, for each of the V values of an attribute."""

    draw: Amounts
    """(V, C) zero where no bound is known"""
    source: Codes
    """(V,) the one counter set that all devices of the value draw from, else -1"""
    node: Codes
    """(V,) the one node that all devices of the value are on, else -1"""
    draws: bool
    """Whether some value has a set in `source`"""
    local: bool
    """Whether some value belongs to one node, so that values can exclude nodes"""


class MatchGroup(Struct, frozen=True):
    """Requests that must share the value of an attribute."""

    name: Name
    options: tuple[RequestOption, ...]
    bound: ValueBound | None
    """The least that all their devices draw together; None if no device has the attribute"""


def match_groups(parsed: ParsedClaims, snapshot: Snapshot) -> tuple[MatchGroup, ...]:
    """The match groups that can exclude nodes. They depend on the fleet alone.

    None while selectors fail on some device, since that error must be reported.
    """
    if not any(claim.spec.devices.constraints for claim in parsed.claims):
        return ()
    if any(
        evaluate_selectors(option, snapshot.fleet).fails for slot in parsed.slots for option in slot.options
    ):
        return ()
    known: dict[tuple[tuple[str, ...], Name], ValueBound] = {}
    groups = (
        _match_group(name, options, snapshot.fleet, known)
        for name, options in _matching_options(parsed, snapshot.fleet)
    )
    return tuple([group for group in groups if group.bound is None or group.bound.local])


def nodes_with_a_value(groups: Sequence[MatchGroup], snapshot: Snapshot) -> Mask | None:
    """(N + 1,) nodes that the constraints do not exclude, by the fleet's code; None if they exclude none.

    The last entry stands for nodes without devices. Nothing is excluded while shares are held of a device
    that is published as dedicated now: its counters are drawn already.
    """
    if not groups or (
        snapshot.occupancy.consumed and np.any(snapshot.occupancy.sharing & ~snapshot.fleet.shared)
    ):
        return None
    possible: Mask | None = None
    for group in groups:
        nodes = _nodes(group, snapshot)
        if nodes is not None:
            possible = nodes if possible is None else possible & nodes
    return possible


def _matching_options(parsed: ParsedClaims, fleet: Fleet) -> Iterator[tuple[Name, tuple[RequestOption, ...]]]:
    """Attributes that plain requests must share, with the options of those requests."""
    for at, claim in enumerate(parsed.claims):
        for number, constraint in enumerate(claim.spec.devices.constraints):
            if constraint.match_attribute is None:
                continue
            domain, _, id_ = constraint.match_attribute.partition("/")
            if domain == ANY_DOMAIN or derived_by(parsed, at, constraint):
                continue
            options = [
                slot.options[0]
                for slot in parsed.slots
                if slot.claim == at and len(slot.options) == 1 and number in slot.options[0].constraints
            ]
            plain = tuple([option for option in options if not option.all and not option.admin])
            if plain and all_scalar(Name(domain, id_), fleet):
                yield Name(domain, id_), plain


def _nodes(group: MatchGroup, snapshot: Snapshot) -> Mask | None:
    fleet, bound = snapshot.fleet, group.bound
    nodes = np.zeros(len(fleet.vocabulary.nodes.values) + 1, dtype=np.bool_)
    if bound is None:
        return nodes
    feasible = np.ones(len(bound.source), dtype=np.bool_)
    for option in group.options:
        feasible &= available(option, snapshot).per_value(group.name, fleet) >= option.source.wanted
    if bound.draws:
        rows = np.flatnonzero(feasible)
        enough = fits_required(snapshot.occupancy.left[bound.source[rows]], bound.draw[rows])
        feasible[rows] = enough | (bound.source[rows] < 0)
    places = bound.node[feasible]
    if (places < 0).any():
        return None
    nodes[places] = True
    return nodes


def _match_group(
    name: Name,
    options: tuple[RequestOption, ...],
    fleet: Fleet,
    known: dict[tuple[tuple[str, ...], Name], ValueBound],
) -> MatchGroup:
    """The group of the options, with the least that they draw together.

    known  what is known of selectors and attributes; grows
    """
    if name not in fleet.cel.attributes:
        return MatchGroup(name, options, None)
    for option in options:
        if (option.key.expressions, name) not in known:
            known[option.key.expressions, name] = _value_bound(option, name, fleet)
    bounds = [known[option.key.expressions, name] for option in options]
    source = bounds[0].source
    draw = np.zeros_like(bounds[0].draw)
    for option, bound in zip(options, bounds, strict=True):
        draw += option.source.wanted * bound.draw
        source = np.where(source == bound.source, source, -1)
    draw = np.where(draw == 0, NOTHING_REQUIRED, draw)
    draws = bool((source >= 0).any())
    return MatchGroup(name, options, ValueBound(draw, source, bounds[0].node, draws, bounds[0].local))


def _value_bound(option: RequestOption, name: Name, fleet: Fleet) -> ValueBound:
    values = fleet.cel.attributes[name].codes
    size = value_count(name, fleet)
    rows = np.flatnonzero(evaluate_selectors(option, fleet).true & (values >= 0))
    groups = values[rows].astype(np.intp)
    draw = np.zeros((size, fleet.table.shape[1]), dtype=np.int64)
    source = np.full(size, -1, dtype=np.int32)
    if fleet.sets.shape[1]:
        # A shared device may have drawn already, and a second set is ignored: no bound for such values.
        once = ~fleet.shared[rows] & (fleet.sets[rows, 1:] < 0).all(axis=1)
        source = group_code(np.where(once, fleet.sets[rows, 0], -1), groups, size)
        source[groups[~once]] = -1
        drawing = source[groups] >= 0
        draw = group_min(fleet.table[fleet.draws[rows[drawing], 0]], groups[drawing], size)
    node = group_code(fleet.codes["node"][rows], groups, size)
    return ValueBound(draw, source, node, draws=bool((source >= 0).any()), local=bool((node >= 0).any()))
