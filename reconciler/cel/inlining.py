"""`cel.bind(d, device.attributes["x"], d.a == 1)` becomes `device.attributes["x"].a == 1`.

Only if the bound value is a short path into the device. Then nothing is computed twice, errors occur in the
same places, and the body can be split into leaves that read single columns.
"""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from reconciler.cel.tree import Bind, Ident, Index, Literal, Node, Select, bound_names, children

MAX_PATH = 3
"""Maximum levels of a path that is inlined."""


def inline(root: Node) -> Node:
    """The tree with names bound to paths replaced by the paths."""
    # If a bound name hides `device`, an inlined path would mean something else.
    return root if _hides_device(root) else _inline(root, {})


def _inline(node: Node, paths: Mapping[str, Node]) -> Node:
    if isinstance(node, Ident):
        return paths.get(node.name, node)
    if isinstance(node, Bind):
        initial = _inline(node.initial, paths)
        if _is_path(initial):
            return _inline(node.body, {**paths, node.name: initial})
    inner = {name: path for name, path in paths.items() if name not in bound_names(node)}
    replaced = {
        child: _inline(child, inner if index > 0 else paths) for index, child in enumerate(children(node))
    }
    return _rebuild(node, replaced)


def _is_path(node: Node) -> bool:
    if node.depth > MAX_PATH:
        return False
    match node:
        case Ident(name="device"):
            return True
        case Select(operand=operand, optional=False) | Index(operand=operand, key=Literal(), optional=False):
            return _is_path(operand)
    return False


def _hides_device(node: Node) -> bool:
    return "device" in bound_names(node) or any(_hides_device(child) for child in children(node))


def _rebuild(node: Node, replaced: dict[Node, Node]) -> Node:
    """`node` with other children; `node` itself if they are the same."""
    if all(old is new for old, new in replaced.items()):
        return node

    def renewed(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(renewed(item) for item in value)
        return replaced.get(value, value) if isinstance(value, Node) else value

    rebuilt = replace(node, **{name: renewed(getattr(node, name)) for name in node.__struct_fields__})
    return replace(rebuilt, depth=max(node.depth, 1 + max(child.depth for child in replaced.values())))
