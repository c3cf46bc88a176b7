"""Find the columns an expression reads, so that it runs once per distinct combination of their values."""

from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from reconciler.cel.tree import (
    Call,
    Comprehension,
    Has,
    Ident,
    Index,
    Literal,
    Node,
    Select,
    bound_names,
    children,
)


class Part(StrEnum):
    """The parts of a device."""

    DRIVER = "driver"
    ATTRIBUTES = "attributes"
    CAPACITY = "capacity"
    SHARED = "allowMultipleAllocations"


class Read(Struct, frozen=True):
    """A column; without name, all columns of a domain; without domain, all columns of a part."""

    part: Part
    domain: str | None = None
    name: str | None = None
    presence: bool = False
    """Whether only the presence of values matters."""

    def includes(self, column: "Read") -> bool:
        """Whether a single column is among those that this reads."""
        return (
            self.part is column.part
            and self.domain in (None, column.domain)
            and self.name in (None, column.name)
        )


_MAPS = frozenset({Part.ATTRIBUTES, Part.CAPACITY})
EVERYTHING = frozenset(Read(part) for part in Part)


def reads(node: Node, hidden: bool = False) -> frozenset[Read]:
    """What a tree reads of the device; `hidden` if a bound name hides `device`."""
    found_path = None if hidden else path(node)
    if found_path is not None:
        return frozenset({_read(*found_path)})
    if isinstance(node, Ident):
        return EVERYTHING if node.name == "device" and not hidden else frozenset()
    found: frozenset[Read] = frozenset()
    hides = "device" in bound_names(node)
    for index, child in enumerate(children(node)):
        keys = _keys(node, child) if index == 0 and not hidden else None
        found |= reads(child, hidden or (hides and index > 0)) if keys is None else frozenset({keys})
    return found


def _keys(node: Node, child: Node) -> Read | None:
    """The read of a map of which only the keys matter: in `size(map)`, or in a loop with one name."""
    if isinstance(node, Comprehension):
        keys_only = len(node.names) == 1
    else:
        keys_only = isinstance(node, Call) and node.function == "size"
    found = path(child) if keys_only else None
    if found is None or found[0] not in _MAPS or len(found[1]) > 1:
        return None
    return replace(_read(*found), presence=True)


def _read(part: Part, keys: tuple[str, ...]) -> Read:
    domain, name, *_ = (*keys, None, None) if part in _MAPS else (None, None)
    return Read(part, domain, name)


def path(node: Node) -> tuple[Part, tuple[str, ...]] | None:
    """The keys after `device.part` if all are constants; keys after the second select within a value."""
    match node:
        case Select(operand=Ident(name="device"), field=field):
            return Part(field), ()
        case Select(operand=operand, field=key) | Has(operand=operand, field=key):
            pass
        case Call(function="_in_", arguments=(Literal(value=str(key)), operand)):
            pass
        case Index(operand=operand, key=Literal(value=str(key))):
            pass
        case _:
            return None
    below = path(operand)
    if below is None:
        return None
    part, keys = below
    return part, (*keys, key)
