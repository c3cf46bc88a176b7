"""Functions and operators as tables of overloads; signatures are parsed from text."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface
from typing import Any

from msgspec import Struct

from reconciler.api.objects.quantity import Quantity
from reconciler.api.objects.semver import Semver
from reconciler.cel.errors import CelError
from reconciler.cel.opaque import Format, Url
from reconciler.cel.types import DYN, QUANTITY, SEMVER, Type
from reconciler.cel.values import Domains, Meter, Option, TypeValue, UInt, Value, name_of

_SHORT = {
    "Quantity": QUANTITY,
    "Semver": SEMVER,
    "IP": Type("net.IP"),
    "CIDR": Type("net.CIDR"),
    "URL": Type("kubernetes.URL"),
    "Format": Type("kubernetes.NamedFormat"),
    "duration": Type("google.protobuf.Duration"),
    "timestamp": Type("google.protobuf.Timestamp"),
}
_HELD_AS: Mapping[str, frozenset[type]] = {
    "bool": frozenset({bool}),
    "int": frozenset({int}),
    "uint": frozenset({UInt}),
    "double": frozenset({float}),
    "string": frozenset({str}),
    "bytes": frozenset({bytes}),
    "null_type": frozenset({type(None)}),
    "list": frozenset({tuple}),
    "map": frozenset({dict, Domains}),
    "optional_type": frozenset({Option}),
    "type": frozenset({TypeValue}),
    QUANTITY.name: frozenset({Quantity}),
    SEMVER.name: frozenset({Semver}),
    "net.IP": frozenset({IPv4Address, IPv6Address}),
    "net.CIDR": frozenset({IPv4Interface, IPv6Interface}),
    "kubernetes.URL": frozenset({Url}),
    "kubernetes.NamedFormat": frozenset({Format}),
    "google.protobuf.Duration": frozenset({timedelta}),
    "google.protobuf.Timestamp": frozenset({datetime}),
}
"""By static type: the Python types of its values."""


class Overload(Struct, frozen=True):
    """One way to call a function."""

    parameters: tuple[Type, ...]
    result: Type
    run: Callable[..., Value]
    cost: Callable[..., int] | None
    """Steps of a call beyond the first, computed from the arguments."""
    metered: bool
    """Whether `run` takes the meter as first argument and charges its cost itself."""

    def takes(self, kinds: Sequence[type]) -> bool:
        """Whether values of these Python types fit the parameters."""
        return len(kinds) == len(self.parameters) and all(
            kind in held
            for parameter, kind in zip(self.parameters, kinds, strict=True)
            if (held := _HELD_AS.get(parameter.name)) is not None
        )


Key = tuple[str, bool]
"""Name, and whether the function is called on a receiver."""


class Library:
    """A table of functions, filled by decorators."""

    def __init__(self) -> None:
        self.table: dict[Key, list[Overload]] = {}

    def function(
        self, name: str, *signatures: str, cost: Callable[..., int] | None = None, metered: bool = False
    ) -> Callable[[Callable[..., Value]], Callable[..., Value]]:
        """Declare `name(...)`; a signature looks like `int, list(T) -> T`."""
        return self._declare((name, False), signatures, cost, metered)

    def member(
        self, name: str, *signatures: str, cost: Callable[..., int] | None = None, metered: bool = False
    ) -> Callable[[Callable[..., Value]], Callable[..., Value]]:
        """Declare `receiver.name(...)`; the receiver is the first parameter."""
        return self._declare((name, True), signatures, cost, metered)

    def _declare(
        self, key: Key, signatures: Iterable[str], cost: Callable[..., int] | None, metered: bool
    ) -> Callable[[Callable[..., Value]], Callable[..., Value]]:
        def enter(run: Callable[..., Value]) -> Callable[..., Value]:
            overloads = self.table.setdefault(key, [])
            for signature in signatures:
                parameters, result = signature.split(" -> ")
                overloads.append(Overload(_types(parameters), _types(result)[0], run, cost, metered))
            return run

        return enter


def _types(text: str) -> tuple[Type, ...]:
    """The comma-separated types of a signature."""
    found: list[Type] = []
    while text:
        name_end = next((i for i, c in enumerate(text) if c in "(,"), len(text))
        name, rest = text[:name_end].strip(), text[name_end:]
        params: tuple[Type, ...] = ()
        if rest.startswith("("):
            close = _closing(rest)
            params, rest = _types(rest[1:close]), rest[close + 1 :]
        found.append(_named(name, params))
        text = rest.lstrip(", ")
    return tuple(found)


def _closing(text: str) -> int:
    depth = 0
    for i, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return i
    raise ValueError(f"{text!r} has an open bracket")


def _named(name: str, params: tuple[Type, ...]) -> Type:
    if len(name) == 1:
        return Type(f"?{name}")
    if name == "optional":
        return Type("optional_type", params)
    return _SHORT.get(name) or (DYN if name == "dyn" else Type(name, params))


class Dispatch:
    """Chooses an overload of one call by the types of the values, and caches the choice."""

    def __init__(self, name: str, overloads: Sequence[Overload]) -> None:
        self._name = name
        self._overloads = overloads
        self._chosen: dict[tuple[type, ...], Overload] = {}

    def __call__(self, meter: Meter, arguments: list[Any]) -> Value:
        """Run the overload that fits. Raises CelError if none does."""
        kinds = tuple(map(type, arguments))
        overload = self._chosen.get(kinds) or self._choose(kinds, arguments)
        meter.charge(1 if overload.cost is None else 1 + overload.cost(*arguments))
        return overload.run(meter, *arguments) if overload.metered else overload.run(*arguments)

    def _choose(self, kinds: tuple[type, ...], arguments: list[Any]) -> Overload:
        for overload in self._overloads:
            if overload.takes(kinds):
                self._chosen[kinds] = overload
                return overload
        given = ", ".join(map(name_of, arguments))
        raise CelError(f"no such overload: {self._name} of ({given})")
