"""What a tree tells: the columns it reads, names that stand for a path, the drivers it can match."""

from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reconciler.cel import tree
from reconciler.cel.errors import CelRefused
from reconciler.cel.reading import read


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


def reads(node: tree.Node, hidden: bool = False) -> frozenset[Read]:
    """What a tree reads of the device; `hidden` if a bound name hides `device`."""
    found_path = None if hidden else path(node)
    if found_path is not None:
        return frozenset({_read(*found_path)})
    if isinstance(node, tree.Ident):
        return EVERYTHING if node.name == "device" and not hidden else frozenset()
    found: frozenset[Read] = frozenset()
    hides = "device" in tree.bound_names(node)
    for index, child in enumerate(tree.children(node)):
        keys = _keys(node, child) if index == 0 and not hidden else None
        found |= reads(child, hidden or (hides and index > 0)) if keys is None else frozenset({keys})
    return found


def _keys(node: tree.Node, child: tree.Node) -> Read | None:
    """The read of a map of which only the keys matter: in `size(map)`, or in a loop with one name."""
    if isinstance(node, tree.Comprehension):
        keys_only = len(node.names) == 1
    else:
        keys_only = isinstance(node, tree.Call) and node.function == "size"
    found = path(child) if keys_only else None
    if found is None or found[0] not in _MAPS or len(found[1]) > 1:
        return None
    return replace(_read(*found), presence=True)


def _read(part: Part, keys: tuple[str, ...]) -> Read:
    domain, name, *_ = (*keys, None, None) if part in _MAPS else (None, None)
    return Read(part, domain, name)


def path(node: tree.Node) -> tuple[Part, tuple[str, ...]] | None:
    """The keys after `device.part` if all are constants; keys after the second select within a value."""
    match node:
        case tree.Select(operand=tree.Ident(name="device"), field=field):
            return Part(field), ()
        case tree.Select(operand=operand, field=key) | tree.Has(operand=operand, field=key):
            pass
        case tree.Call(function="_in_", arguments=(tree.Literal(value=str(key)), operand)):
            pass
        case tree.Index(operand=operand, key=tree.Literal(value=str(key))):
            pass
        case _:
            return None
    below = path(operand)
    if below is None:
        return None
    part, keys = below
    return part, (*keys, key)


MAX_PATH = 3
"""Maximum levels of a path that is inlined."""


def inline(root: tree.Node) -> tree.Node:
    """The tree with names bound to paths replaced by the paths.

    `cel.bind(d, device.attributes["x"], d.a == 1)` becomes `device.attributes["x"].a == 1`, only if the
    bound value is a short path into the device. Then nothing is computed twice, errors occur in the same
    places, and the body can be split into leaves that read single columns.
    """
    # If a bound name hides `device`, an inlined path would mean something else.
    return root if _hides_device(root) else _inline(root, {})


def _inline(node: tree.Node, paths: Mapping[str, tree.Node]) -> tree.Node:
    if isinstance(node, tree.Ident):
        return paths.get(node.name, node)
    if isinstance(node, tree.Bind):
        initial = _inline(node.initial, paths)
        if _is_path(initial):
            return _inline(node.body, {**paths, node.name: initial})
    inner = {name: path for name, path in paths.items() if name not in tree.bound_names(node)}
    replaced = {
        child: _inline(child, inner if index > 0 else paths)
        for index, child in enumerate(tree.children(node))
    }
    return _rebuild(node, replaced)


def _is_path(node: tree.Node) -> bool:
    if node.depth > MAX_PATH:
        return False
    match node:
        case tree.Ident(name="device"):
            return True
        case (
            tree.Select(operand=operand, optional=False)
            | tree.Index(operand=operand, key=tree.Literal(), optional=False)
        ):
            return _is_path(operand)
    return False


def _hides_device(node: tree.Node) -> bool:
    return "device" in tree.bound_names(node) or any(_hides_device(child) for child in tree.children(node))


def _rebuild(node: tree.Node, replaced: dict[tree.Node, tree.Node]) -> tree.Node:
    """`node` with other children; `node` itself if they are the same."""
    if all(old is new for old, new in replaced.items()):
        return node

    def renewed(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(renewed(item) for item in value)
        return replaced.get(value, value) if isinstance(value, tree.Node) else value

    rebuilt = replace(node, **{name: renewed(getattr(node, name)) for name in node.__struct_fields__})
    return replace(rebuilt, depth=max(node.depth, 1 + max(child.depth for child in replaced.values())))


@lru_cache(maxsize=4096)
def drivers_of(expression: str) -> frozenset[str] | None:
    """The only drivers whose devices a selector can match; None if it does not restrict the driver.

    Understands terms that compare `device.driver` with constants, joined by `&&` and `||`. Other terms
    joined by `&&` do not matter, even if they fail: false takes precedence over an error (CEL-8).
    """
    try:
        return _drivers(read(expression))
    except CelRefused:
        return None


def _drivers(node: tree.Node) -> frozenset[str] | None:
    match node:
        case tree.Logic(terms=terms, ends_on=ends_on):
            found = [_drivers(term) for term in terms]
            known = [one for one in found if one is not None]
            if ends_on:  # any term may make it true
                return frozenset().union(*known) if len(known) == len(found) else None
            return frozenset.intersection(*known) if known else None
        case tree.Call(function="_==_", arguments=(left, right)):
            return _same(left, right) or _same(right, left)
        case tree.Call(function="_in_", arguments=(asked, tree.ListOf(elements=elements))) if _is_driver(
            asked
        ):
            names = [one.value for one in elements if not one.optional]
            texts = [
                one.value for one in names if isinstance(one, tree.Literal) and isinstance(one.value, str)
            ]
            return frozenset(texts) if len(texts) == len(elements) else None
    return None


def _same(asked: tree.Node, given: tree.Node) -> frozenset[str] | None:
    if _is_driver(asked) and isinstance(given, tree.Literal) and isinstance(given.value, str):
        return frozenset([given.value])
    return None


def _is_driver(node: tree.Node) -> bool:
    return path(node) == (Part.DRIVER, ())
