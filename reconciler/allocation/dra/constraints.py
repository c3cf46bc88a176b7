"""`matchAttribute` and `distinctAttribute` as masks over one node's devices. Source: CON-1 to CON-8.

The state of a constraint is a value: the search leaves a branch without undoing anything.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np

from kernels.distinct import distinct
from kernels.types import Codes, Mask, Rows
from reconciler.api.objects.claims import DeviceConstraint
from reconciler.api.objects.semantics import LIST_ATTRIBUTES, Semantics
from reconciler.state.caches import Cache
from reconciler.state.devices.encoding.vocabulary import Name
from reconciler.state.devices.pools.fleet import Fleet

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
    keys: Sequence[Hashable]
    """By code, the value with its type; later values are appended"""
    lists: bool
    """Whether list attributes are supported (CON-6)"""
    plain: bool
    """Every device has one comparable value or none"""
    _tokens: dict[int, Tokens] | None = field(default=None, repr=False)
    _allowed: dict[State, Mask] = field(default_factory=dict, repr=False)

    @property
    def tokens(self) -> dict[int, Tokens]:
        """Code -> the values it stands for; empty for a value that cannot be compared."""
        if self._tokens is None:
            codes = distinct(self.codes[self.codes >= 0]).tolist()
            self._tokens = {code: _tokens(self.keys[code], lists=self.lists) for code in codes}
        return self._tokens

    @property
    def alone(self) -> frozenset[int]:
        """Codes that match no other device: lists, where lists are not supported (CON-6)."""
        if self.plain or self.lists or not self.match:
            return frozenset()
        return frozenset(code for code, values in self.tokens.items() if not values)

    def allowed(self, state: State) -> Mask:
        """(n,) the devices that could be chosen next."""
        known = self._allowed.get(state)
        if known is None:
            known = self._allowed[state] = self._judge(state)
        return known

    def _judge(self, state: State) -> Mask:
        if state is None and self.plain:
            return self.codes >= 0
        fine = [code for code, tokens in self.tokens.items() if self._admits(code, tokens, state)]
        return self.codes == fine[0] if len(fine) == 1 else np.isin(self.codes, fine)

    def after(self, state: State, row: int) -> State:
        """The state once the device in `row` is chosen."""
        code = int(self.codes[row])
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


def compile_constraint(source: DeviceConstraint, fleet: Fleet, rows: Rows, rules: Semantics) -> Constraint:
    """A constraint over the devices in `rows` (n,)."""
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
    return Constraint(attribute, match, codes, keys, lists, plain)


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
    if domain == ANY_DOMAIN or (column := fleet.cel.attributes.get((domain, id_))) is None:
        return None
    return column.codes if all_scalar(Name(domain, id_), fleet) else None


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
