"""Records are structs of msgspec unless they need what only dataclasses have.

To define a frozen dataclass takes 0.3 ms, to define a struct 0.01 ms, and a start defines hundreds of them.
"""

import ast
from collections.abc import Iterator

from tests.tools.structure import modules

DATACLASS_ONLY = {"compare", "init", "repr"}
"""What a field of a struct cannot have"""
LIBRARY_FREE = ("kernels.", "reconciler.api.objects.semantics", "reconciler.cli.options")
"""Kernels know NumPy alone, and the help of a command imports no library"""
DECLARED = ("reconciler.control.decisions.",)
"""Fields of decisions declare their log lines and metrics"""
PUBLIC = ("reconciler.library.",)
"""Users of the library know dataclasses, and data frames are made of them"""
REPLACED = {
    "reconciler.analysis.sizing.answer.Group",
    "reconciler.allocation.policies.expected_fill.ExpectedFill",
}
"""A subclass computes a field later, or a base class does"""


def needs_dataclass(record: ast.ClassDef) -> bool:
    """Whether a field has an option that structs lack, follows `KW_ONLY`, or is validated by pydantic."""
    options = {
        option.arg
        for part in record.body
        if isinstance(part, ast.AnnAssign) and isinstance(part.value, ast.Call)
        for option in part.value.keywords
    }
    text = ast.unparse(record)
    return bool(options & DATACLASS_ONLY) or "KW_ONLY" in text or "config=LEAN" in text


def slow_records(module: str, text: str) -> Iterator[str]:
    """The classes of a module that are dataclasses without need."""
    if module.startswith((*LIBRARY_FREE, *DECLARED, *PUBLIC)):
        return
    if "dataclass" not in text and "value(" not in text:
        return  # to parse all files takes seconds
    for found in ast.walk(ast.parse(text)):
        if isinstance(found, ast.ClassDef) and f"{module}.{found.name}" not in REPLACED:
            made_by = [ast.unparse(decorator).partition("(")[0] for decorator in found.decorator_list]
            if {"dataclass", "value"} & {*made_by} and not needs_dataclass(found):
                yield f"{module}.{found.name}"


def test_records_are_structs():
    found = [name for module, path in modules().items() for name in slow_records(module, path.read_text())]
    assert found == []


def test_a_dataclass_without_need_is_found():
    plain = "@dataclass(frozen=True, slots=True)\nclass Found:\n    a: int\n"
    assert list(slow_records("reconciler.state.found", plain)) == ["reconciler.state.found.Found"]
    assert list(slow_records("kernels.found", plain)) == []
    compared = "@value()\nclass Found:\n    a: int = field(default=0, compare=False)\n"
    assert list(slow_records("reconciler.state.found", compared)) == []
