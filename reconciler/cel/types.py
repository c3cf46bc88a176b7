"""Static types with the inference of type parameters, and functions as tables of overloads.

`dyn` is compatible with every type. Attributes are dyn, so the check refuses only certain errors. The
signatures of functions are parsed from text.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface
from typing import Any, Final

from msgspec import Struct

from reconciler.api.objects.quantity import Quantity
from reconciler.api.objects.semver import Semver
from reconciler.cel import values
from reconciler.cel.errors import CelError
from reconciler.errors import Inconsistent


class Type(Struct, frozen=True):
    """A type by name, with its parameters. A name that starts with `?` is a type to be inferred."""

    name: str
    params: tuple["Type", ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether it is a type to be inferred."""
        return self.name[0] == "?"

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.params))})" if self.params else self.name


DYN: Final = Type("dyn")
BOOL: Final = Type("bool")
INT: Final = Type("int")
STRING: Final = Type("string")
NULL: Final = Type("null_type")
DURATION: Final = Type("google.protobuf.Duration")
TIMESTAMP: Final = Type("google.protobuf.Timestamp")
QUANTITY: Final = Type("kubernetes.Quantity")
SEMVER: Final = Type("kubernetes.Semver")
IP: Final = Type("net.IP")
CIDR: Final = Type("net.CIDR")
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
    """The inferred type parameters of one expression, by the rules of cel-go's checker.

    Its order matters: a parameter that is still open takes the type of the first overload that fits, which
    later decides what fits. So `-x` is a double where nothing says what x is.
    """

    def __init__(self) -> None:
        self._known: dict[str, Type] = {}
        self._count = 0

    def fresh(self) -> Type:
        """A new type to be inferred."""
        self._count += 1
        return Type(f"?{self._count}")

    def instance(self, type_: Type, names: dict[str, Type]) -> Type:
        """`type_` with each type parameter replaced by a fresh one; `names` maps the parameters."""
        if type_.is_open:
            return names.setdefault(type_.name, self.fresh())
        if not type_.params:
            return type_
        return Type(type_.name, tuple(self.instance(param, names) for param in type_.params))

    def substitute(self, type_: Type) -> Type:
        """`type_` with inferred types filled in."""
        if type_.is_open:
            known = self._known.get(type_.name)
            return type_ if known is None else self.substitute(known)
        if not type_.params:
            return type_
        return Type(type_.name, tuple(map(self.substitute, type_.params)))

    def resolve(self, type_: Type) -> Type:
        """`type_` with inferred types filled in; undecided types are dyn."""
        return _closed(self.substitute(type_))

    def assignable(self, left: Type, right: Type) -> bool:
        """Whether two types go together. Infers types if so."""
        return self.all_assignable((left,), (right,))

    def all_assignable(self, left: tuple[Type, ...], right: tuple[Type, ...]) -> bool:
        """Whether each two types go together. Infers types only if all do."""
        before = self._known.copy()
        if self._all_assignable(left, right):
            return True
        self._known = before
        return False

    def general(self, left: Type, right: Type) -> Type:
        """The more general of two compatible types."""
        return left if _is_as_general(left, right) else right

    def _all_assignable(self, left: tuple[Type, ...], right: tuple[Type, ...]) -> bool:
        return len(left) == len(right) and all(map(self._assignable, left, right))

    def _assignable(self, left: Type, right: Type) -> bool:
        if right.is_open:
            if self._stands_for(right, left):
                return True
            if right.name in self._known:
                return False
        if left.is_open:
            return self._stands_for(left, right)
        if DYN in (left, right):
            return True
        if NULL in (left, right):
            return left == right or (right if left == NULL else left).name not in _NOT_NULLABLE
        if left.name == "type":
            return right.name == "type"
        return left.name == right.name and self._all_assignable(left.params, right.params)

    def _stands_for(self, parameter: Type, other: Type) -> bool:
        """Whether an open type may be `other`; it becomes the more general of `other` and what it was."""
        if parameter == other:
            return True
        known = self._known.get(parameter.name)
        if known is None:
            if not self._is_absent(parameter, other):
                return False
            self._known[parameter.name] = other
            return True
        if other == known:
            return True
        if not self._assignable(other, known):
            return False
        general = self.general(other, known)
        if self._is_absent(parameter, general):
            self._known[parameter.name] = general
        return True

    def _is_absent(self, parameter: Type, inside: Type) -> bool:
        """Whether a parameter does not occur in a type, which would be infinite."""
        if inside.is_open:
            known = self._known.get(inside.name)
            return parameter != inside and (known is None or self._is_absent(parameter, known))
        return all(self._is_absent(parameter, param) for param in inside.params)


def _closed(type_: Type) -> Type:
    if type_.is_open:
        return DYN
    return Type(type_.name, tuple(map(_closed, type_.params))) if type_.params else type_


def _is_as_general(left: Type, right: Type) -> bool:
    if left == DYN or left.is_open:
        return True
    if right == DYN or right.is_open or left.name != right.name:
        return False
    return left.name == "type" or (
        len(left.params) == len(right.params) and all(map(_is_as_general, left.params, right.params))
    )


_SHORT = {
    "Quantity": QUANTITY,
    "Semver": SEMVER,
    "IP": IP,
    "CIDR": CIDR,
    "URL": Type("kubernetes.URL"),
    "Format": Type("kubernetes.NamedFormat"),
    "duration": DURATION,
    "timestamp": TIMESTAMP,
}
_HELD_AS: Mapping[str, frozenset[type]] = {
    "bool": frozenset({bool}),
    "int": frozenset({int}),
    "uint": frozenset({values.UInt}),
    "double": frozenset({float}),
    "string": frozenset({str}),
    "bytes": frozenset({bytes}),
    "null_type": frozenset({type(None)}),
    "list": frozenset({tuple}),
    "map": frozenset({dict, values.Built, values.Domains}),
    "optional_type": frozenset({values.Option}),
    "type": frozenset({values.TypeValue}),
    QUANTITY.name: frozenset({Quantity, values.Computed}),
    SEMVER.name: frozenset({Semver}),
    "net.IP": frozenset({IPv4Address, IPv6Address}),
    "net.CIDR": frozenset({IPv4Interface, IPv6Interface}),
    "kubernetes.URL": frozenset({values.Url}),
    "kubernetes.NamedFormat": frozenset({values.Format}),
    "google.protobuf.Duration": frozenset({values.Duration}),
    "google.protobuf.Timestamp": frozenset({values.Timestamp}),
}
"""By static type: the Python types of its values."""


class Overload(Struct, frozen=True):
    """One way to call a function."""

    parameters: tuple[Type, ...]
    result: Type
    run: Callable[..., values.Value]
    cost: Callable[..., int] | None
    """Steps of a call beyond the first, computed from the arguments."""
    metered: bool
    """Whether `run` takes the meter as first argument and charges its cost itself."""

    def takes(self, kinds: Sequence["Kind"]) -> bool:
        """Whether values of these kinds fit the parameters."""
        return len(kinds) == len(self.parameters) and all(map(_holds, self.parameters, kinds))


Kind = type | tuple[type, type]
"""The Python type of a value; of a list also that of its first element."""


def kind_of(value: values.Value) -> Kind:
    """The kind of a value. As Kubernetes, nobody looks at more than the first element of a list."""
    return (tuple, type(value[0])) if type(value) is tuple and value else type(value)


def _holds(parameter: Type, kind: Kind) -> bool:
    outer, inner = kind if isinstance(kind, tuple) else (kind, None)
    held = _HELD_AS.get(parameter.name)
    if held is None or outer not in held or inner is None:
        return held is None or outer in held
    element = parameter.params[0].name
    # What takes lists of lists also takes flat ones.
    return element == "list" or inner in _HELD_AS.get(element, (inner,))


Key = tuple[str, bool]
"""Name, and whether the function is called on a receiver."""


class Library:
    """A table of functions, filled by decorators."""

    def __init__(self) -> None:
        self.table: dict[Key, list[Overload]] = {}

    def function(
        self, name: str, *signatures: str, cost: Callable[..., int] | None = None, metered: bool = False
    ) -> Callable[[Callable[..., values.Value]], Callable[..., values.Value]]:
        """Declare `name(...)`; a signature looks like `int, list(T) -> T`."""
        return self._declare((name, False), signatures, cost, metered)

    def member(
        self, name: str, *signatures: str, cost: Callable[..., int] | None = None, metered: bool = False
    ) -> Callable[[Callable[..., values.Value]], Callable[..., values.Value]]:
        """Declare `receiver.name(...)`; the receiver is the first parameter."""
        return self._declare((name, True), signatures, cost, metered)

    def declare(self, name: str, *signatures: str, member: bool = False) -> None:
        """Declare a call for the check alone: the evaluator carries it out by itself."""
        self._declare((name, member), signatures, None, False)(_unreachable)

    def _declare(
        self, key: Key, signatures: Iterable[str], cost: Callable[..., int] | None, metered: bool
    ) -> Callable[[Callable[..., values.Value]], Callable[..., values.Value]]:
        def enter(run: Callable[..., values.Value]) -> Callable[..., values.Value]:
            overloads = self.table.setdefault(key, [])
            for signature in signatures:
                parameters, result = signature.split(" -> ")
                overloads.append(Overload(_types(parameters), _types(result)[0], run, cost, metered))
            return run

        return enter


def _unreachable(*_: values.Value) -> values.Value:
    raise Inconsistent("the evaluator carries this call out by itself")


def readable(read: Callable[..., object]) -> Callable[..., bool]:
    """Whether a function can read what it is given: it raises CelError for anything else."""

    def test(*given: values.Value) -> bool:
        try:
            read(*given)
        except CelError:
            return False
        return True

    return test


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
        self._chosen: dict[tuple[Kind, ...], Overload] = {}

    def __call__(self, meter: values.Meter, arguments: list[Any]) -> values.Value:
        """Run the overload that fits. Raises CelError if none does."""
        kinds = tuple(map(kind_of, arguments))
        overload = self._chosen.get(kinds) or self._choose(kinds, arguments)
        meter.charge(1 if overload.cost is None else 1 + overload.cost(*arguments))
        return overload.run(meter, *arguments) if overload.metered else overload.run(*arguments)

    def _choose(self, kinds: tuple[Kind, ...], arguments: list[Any]) -> Overload:
        for overload in self._overloads:
            if overload.takes(kinds):
                self._chosen[kinds] = overload
                return overload
        given = ", ".join(map(values.name_of, arguments))
        raise CelError(f"no such overload: {self._name} of ({given})")
