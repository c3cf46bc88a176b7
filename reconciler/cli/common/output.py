"""Output of commands: plain text for pipes, tables for terminals, JSON and YAML for programs."""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import click

from reconciler.cli.common.console import UNBOUNDED, Console
from reconciler.cli.common.plain_text import plain, wrapped
from reconciler.cli.common.table import Table

_context: ContextVar[str] = ContextVar("context", default="")
"""Of several clusters, the one that remarks are about now"""


def print_table(console: Console, table: Table, *, wide: bool = False) -> None:
    """Print a table, with bold headings on a terminal. A wide one has one line for each row, however long."""
    for line in table.lines(UNBOUNDED if wide else console.width):
        console.print(line.text, "bold" if line.heading else "")


def print_line(console: Console, line: str, *, hanging: int = 2, style: str = "") -> None:
    """Print a line; control characters are escaped. Wraps it between words on a terminal."""
    for text in wrapped(plain(line), console.width, hanging=hanging):
        console.print(text, style)


def remark(line: str) -> None:
    """Print a line on standard error: a warning, a note or an error, such as `note: TEXT`.

    Errors begin with `Error: `, as those that click prints.
    """
    if context := _context.get():
        sort, _, text = line.partition(": ")
        line = f"{sort}: context {context}: {text}"
    print_line(Console(sys.stderr), line)


@contextmanager
def remarks_on(context: str) -> Iterator[None]:
    """Let all remarks of the block, and of tasks that it starts, name the cluster that they are about."""
    token = _context.set(context)
    try:
        yield
    finally:
        _context.reset(token)


def echo_value(value: Any, output: str) -> None:
    """Print a value as `output`: json or yaml."""
    if output == "json":
        click.echo(json.dumps(value, indent=2))
    else:
        from reconciler.cli.common.yaml_output import of_value  # noqa: PLC0415 - imports PyYAML

        click.echo(of_value(value), nl=False)


def as_list(objects: Sequence[dict[str, Any]]) -> str:
    """Objects as one JSON List."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}, indent=2) + "\n"


def as_documents(objects: Sequence[dict[str, Any]], **style: Any) -> str:
    """Objects as one stream of YAML documents; empty if there are none."""
    if not objects:
        return ""
    from reconciler.cli.common.yaml_output import of_objects  # noqa: PLC0415 - imports PyYAML

    return of_objects(objects, **style)
