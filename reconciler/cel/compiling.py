"""From the text of an expression to its checked tree, and to its evaluation for one value at a time.

It refuses what Kubernetes refuses when it compiles. It needs no numpy, which commands that only read spare.
"""

from typing import NamedTuple

from reconciler.cel.check import Checked, Environment, check
from reconciler.cel.errors import CelError, RefusedAt
from reconciler.cel.evaluate import Emitter, Run
from reconciler.cel.library.standard import compiled
from reconciler.cel.library.strings import Clause, clauses, takes
from reconciler.cel.reading import read
from reconciler.cel.reads import inline
from reconciler.cel.tree import Call, ListOf, Literal, MapOf, Node, children
from reconciler.cel.types import Type

KEPT_SELECTORS = 1024
"""Compiled expressions that are kept, of each kind"""


def checked_tree(expression: str, environment: Environment) -> Checked:
    """The tree of an expression, checked as Kubernetes does, with short bindings replaced.

    Raises CelRefused and RefusedAt.
    """
    tree = read(expression)
    checked = check(tree, environment)
    _refuse_literals(checked)
    return check(inline(tree), environment) if "bind" in expression else checked


class Emitted(NamedTuple):
    """An expression for one value at a time."""

    root: Node
    run: Run
    names: int
    """Slots that a frame needs"""


def emitted(expression: str, environment: Environment) -> Emitted:
    """Compile an expression. Raises CelRefused."""
    try:
        checked = checked_tree(expression, environment)
        emitter = Emitter(checked)
        return Emitted(checked.root, emitter.emit(checked.root, {}), emitter.names)
    except RefusedAt as refusal:
        raise refusal.with_text(expression) from None


def _refuse_literals(checked: Checked) -> None:
    """Refuse literals that Kubernetes refuses. Raises RefusedAt."""
    _Validator(checked).visit(checked.root, within_format=False)


class _Validator:
    def __init__(self, checked: Checked) -> None:
        self._types = checked.types

    def visit(self, node: Node, within_format: bool) -> None:
        """Validate a node and all below; `format` takes lists of mixed types."""
        match node:
            case ListOf(elements=elements) if not within_format:
                self._same([(element.value, element.optional) for element in elements])
            case MapOf(entries=entries) if not within_format:
                self._same([(entry.key, False) for entry in entries])
                self._same([(entry.value, entry.optional) for entry in entries])
            case Call(function="format", member=True):
                within_format = True
                self._format(node)
            case Call(function="matches", member=False, arguments=(Literal(value=str(subject)), _)):
                self._pattern(node, subject)  # not the pattern, which is the second argument
        for child in children(node):
            self.visit(child, within_format)

    def _same(self, members: list[tuple[Node, bool]]) -> None:
        """Refuse members of different types; a dyn among others is one too."""
        first: Type | None = None
        for node, optional in members:
            given = self._types[id(node)]
            given = given.params[0] if optional else given
            first = first or given
            if given != first:
                raise RefusedAt(node.at, f"mixed types: {given} among {first}", "use one type, or dyn()")

    def _format(self, node: Call) -> None:
        """Refuse a constant format whose arguments, if they are listed, have other numbers or types."""
        match node.arguments:
            case (Literal(value=str(text)), ListOf(elements=elements)):
                pass
            case _:
                return
        try:
            expected = [part for part in clauses(text) if isinstance(part, Clause)]
        except CelError as exc:
            raise RefusedAt(node.at, str(exc), "fix the format") from None
        if len(expected) != len(elements):
            reason = f"the format has {len(expected)} clauses, but {len(elements)} arguments"
            raise RefusedAt(node.at, reason, "give each clause an argument")
        for clause, element in zip(expected, elements, strict=True):
            if (wrong := self._unprintable(clause, element.value)) is not None:
                reason = f"{clause.written} does not print {self._types[id(wrong)]}"
                raise RefusedAt(wrong.at, reason, "use another clause, or convert the argument")

    def _unprintable(self, clause: Clause, node: Node) -> Node | None:
        if not takes(clause, self._types[id(node)]):
            return node
        inside: list[Node] = []
        match node:
            case ListOf(elements=elements) if clause.verb == "s":
                inside = [element.value for element in elements]
            case MapOf(entries=entries) if clause.verb == "s":
                inside = [each for entry in entries for each in (entry.key, entry.value)]
        return next((wrong for each in inside if (wrong := self._unprintable(clause, each))), None)

    def _pattern(self, node: Call, subject: str) -> None:
        try:
            compiled(subject)
        except CelError as exc:
            reason = f"Kubernetes compiles the first argument of matches() too: {exc}"
            raise RefusedAt(node.arguments[0].at, reason, "write text.matches(pattern)") from None
