"""`matchAttribute` and `distinctAttribute` as masks over one node's devices. Source: section 12.

The state of a constraint is a value, so that leaving a branch of the search undoes nothing.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field

import numpy as np

from kernels.types import Codes, Mask, Rows
from reconciler.inventory.fleet import Fleet
from reconciler.inventory.vocabulary import Name
from reconciler.objects.requests import DeviceConstraint
from reconciler.objects.semantics import LIST_ATTRIBUTES, Semantics

Tokens = frozenset[Hashable]
State = Tokens | None
"""match: what all chosen devices have in common; distinct: what any of them has. None: none chosen yet."""

ANY_DOMAIN = "*"
"""Stands for every domain; no name that the API allows has it"""
_SCALARS = ("string", "int", "bool", "version")
_ELEMENT = {"strings": "string", "ints": "int", "bools": "bool", "versions": "version"}


@dataclass(frozen=True, slots=True)
class Constraint:
    """One constraint of a claim over the n devices of a view."""

    attribute: str
    match: bool
    """All must share a value; otherwise all must differ."""
    codes: Codes
    """(n,) the attribute's value, -1 where the device has none"""
    tokens: dict[int, Tokens]
    """Code -> the values it stands for; empty for what cannot be compared"""
    alone: frozenset[int]
    """Codes that nothing can stand beside: lists, while lists are not understood (CON-6)"""
    plain: bool
    """Every device has one comparable value or none"""
    _allowed: dict[State, Mask] = field(default_factory=dict, repr=False)

    def allowed(self, state: State) -> Mask:
        """(n,) the devices that could be chosen next."""
        if state not in self._allowed:
            fine = [code for code, tokens in self.tokens.items() if self._admits(code, tokens, state)]
            self._allowed[state] = np.isin(self.codes, fine)
        return self._allowed[state]

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
    elif (column := fleet.cel.attributes.get((domain, name))) is not None:
        codes, keys = column.codes[rows], fleet.words.attribute(Name(domain, name)).keys
    else:
        codes, keys = np.full(len(rows), -1, dtype=np.int32), []
    tokens = {code: _tokens(keys[code], lists=lists) for code in np.unique(codes[codes >= 0]).tolist()}
    alone = frozenset(code for code, values in tokens.items() if match and not lists and not values)
    plain = all(isinstance(keys[code], tuple) and keys[code][0] in _SCALARS for code in tokens)
    return Constraint(attribute, match, codes, tokens, alone, plain)


def _of_any_domain(name: str, fleet: Fleet, rows: Rows) -> tuple[Codes, list[Hashable]]:
    """(n,) codes of an attribute whatever its domain, and the values they stand for.

    A device that has it in several domains counts with the last by name.
    """
    codes, keys = np.full(len(rows), -1, dtype=np.int32), list[Hashable]()
    for domain, id_ in sorted(fleet.cel.attributes):
        if id_ == name:
            here = fleet.cel.attributes[domain, id_].codes[rows]
            codes = np.where(here >= 0, here + len(keys), codes)
            keys += fleet.words.attribute(Name(domain, id_)).keys
    return codes, keys


def _tokens(key: Hashable, *, lists: bool) -> Tokens:
    """The values that an attribute stands for, each with its type, so that 1 and true never meet."""
    match key:
        case (str(kind), tuple(elements)) if kind in _ELEMENT:
            return frozenset((_ELEMENT[kind], element) for element in elements) if lists else frozenset()
        case (_, _):
            return frozenset([key])
    return frozenset()
