"""Static types, and the inference of type parameters.

`dyn` is compatible with every type. Attributes are dyn, so the check refuses only certain errors.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct


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
