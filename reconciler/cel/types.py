"""Static types with the inference of type parameters, and functions as tables of overloads.

`dyn` is compatible with every type. Attributes are dyn, so the check refuses only certain errors. The
signatures of functions are parsed from text.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface
from typing import Any, Final

from msgspec import Struct

from reconciler.api.objects.quantity import Quantity
from reconciler.api.objects.semver import Semver
from reconciler.cel.errors import CelError
from reconciler.cel.values import Domains, Format, Meter, Option, TypeValue, UInt, Url, Value, name_of


class Type(Struct, frozen=True):
    """A type by name, with its parameters. A name that starts with `?` is a type to be inferred."""

    name: str
    params: tuple["Type", ...] = ()

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.params))})" if self.params else self.name


DYN: Final = Type("dyn")
BOOL: Final = Type("bool")
INT: Final = Type("int")
UINT: Final = Type("uint")
DOUBLE: Final = Type("double")
STRING: Final = Type("string")
BYTES: Final = Type("bytes")
NULL: Final = Type("null_type")
QUANTITY: Final = Type("kubernetes.Quantity")
SEMVER: Final = Type("kubernetes.Semver")
DEVICE: Final = Type("DRADevice")

FIELDS: Final[Mapping[Type, Mapping[str, Type]]] = {
    DEVICE: {
        "driver": STRING,
        "attributes": Type("map", (STRING, Type("map", (STRING, DYN)))),
        "capacity": Type("map", (STRING, Type("map", (STRING, QUANTITY)))),
        "allowMultipleAllocations": BOOL,
    }
}
"""The objects of the language (CEL-1) and their fields."""

_NOT_NULLABLE = frozenset({"bool", "int", "uint", "double", "string", "bytes", "list", "map", "type"})


def list_of(item: Type) -> Type:
    """list(item)."""
    return Type("list", (item,))


def map_of(key: Type, value: Type) -> Type:
    """map(key, value)."""
    return Type("map", (key, value))


def optional_of(value: Type) -> Type:
    """optional_type(value)."""
    return Type("optional_type", (value,))


class Inference:
    """The inferred type parameters of one expression."""

    def __init__(self) -> None:
        self._known: dict[str, Type] = {}
        self._count = 0

    def fresh(self) -> Type:
        """A new type to be inferred."""
        self._count += 1
        return Type(f"?{self._count}")

    def instance(self, type_: Type, names: dict[str, Type]) -> Type:
        """`type_` with each type parameter replaced by a fresh one; `names` maps the parameters."""
        if type_.name[0] == "?":
            return names.setdefault(type_.name, self.fresh())
        if not type_.params:
            return type_
        return Type(type_.name, tuple(self.instance(param, names) for param in type_.params))

    def resolve(self, type_: Type) -> Type:
        """`type_` with inferred types filled in; undecided types are dyn."""
        if type_.name[0] == "?":
            known = self._known.get(type_.name)
            return DYN if known is None else self.resolve(known)
        if not type_.params:
            return type_
        return Type(type_.name, tuple(self.resolve(param) for param in type_.params))

    def accepts_all(self, wanted: tuple[Type, ...], given: tuple[Type, ...]) -> bool:
        """Whether every given type fits. Infers types only if all fit."""
        before = len(self._known)
        if all(self.accepts(*pair) for pair in zip(wanted, given, strict=True)):
            return True
        while len(self._known) > before:  # entries never change, so the newest are the new ones
            self._known.popitem()
        return False

    def accepts(self, wanted: Type, given: Type) -> bool:
        """Whether a value of type `given` is allowed where `wanted` is expected. Infers types."""
        wanted, given = self._shallow(wanted), self._shallow(given)
        if wanted == given or DYN in (wanted, given):
            # A parameter that was unified with dyn stays dyn.
            for side, other in ((wanted, given), (given, wanted)):
                if side.name[0] == "?" and other == DYN:
                    self._known[side.name] = DYN
            return True
        if wanted.name[0] == "?" or given.name[0] == "?":
            open_, closed = (wanted, given) if wanted.name[0] == "?" else (given, wanted)
            if self._occurs(open_, closed):
                return False
            self._known[open_.name] = closed
            return True
        if NULL in (wanted, given):
            return (given if wanted == NULL else wanted).name not in _NOT_NULLABLE
        return wanted.name == given.name and all(
            self.accepts(*pair) for pair in zip(wanted.params, given.params, strict=True)
        )

    def _shallow(self, type_: Type) -> Type:
        while type_.name in self._known:
            type_ = self._known[type_.name]
        return type_

    def _occurs(self, name: Type, inside: Type) -> bool:
        inside = self._shallow(inside)
        return inside == name or any(self._occurs(name, param) for param in inside.params)


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
