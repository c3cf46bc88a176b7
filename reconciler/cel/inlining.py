"""`cel.bind(d, device.attributes["x"], d.a == 1)` becomes `device.attributes["x"].a == 1`.

Only where the bound value is a short path into the device: then nothing is computed twice, no error moves,
and the body can be split into leaves that read single columns.
"""

from dataclasses import fields, replace
from typing import Any

from reconciler.cel.tree import Bind, Ident, Index, Literal, Node, Select, bound_names, children

MAX_PATH = 3
"""Levels of a path that is written again at each use."""


def inline(node: Node) -> Node:
    """The tree with each such name replaced by its path."""
    rebuilt = _rebuild(node, {child: inline(child) for child in children(node)})
    if isinstance(rebuilt, Bind) and _is_path(rebuilt.initial) and not _captures(rebuilt.body):
        return _substitute(rebuilt.body, rebuilt.name, rebuilt.initial)
    return rebuilt


def _is_path(node: Node) -> bool:
    if node.depth > MAX_PATH:
        return False
    match node:
        case Ident(name="device"):
            return True
        case Select(operand=operand, optional=False) | Index(operand=operand, key=Literal(), optional=False):
            return _is_path(operand)
    return False


def _captures(node: Node) -> bool:
    """Whether some name below is called `device` too."""
    return "device" in bound_names(node) or any(_captures(child) for child in children(node))


def _substitute(node: Node, name: str, path: Node) -> Node:
    if isinstance(node, Ident):
        return path if node.name == name else node
    hidden = name in bound_names(node)
    replaced = {
        child: child if hidden and index > 0 else _substitute(child, name, path)
        for index, child in enumerate(children(node))
    }
    return _rebuild(node, replaced)


def _rebuild(node: Node, replaced: dict[Node, Node]) -> Node:
    """`node` over other children; itself where they are the same."""
    if all(old is new for old, new in replaced.items()):
        return node

    def renewed(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(renewed(item) for item in value)
        return replaced.get(value, value) if isinstance(value, Node) else value

    return replace(node, **{each.name: renewed(getattr(node, each.name)) for each in fields(node)})
