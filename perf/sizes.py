"""What the commands share: sizes on the command line, and a bar while they run."""

from collections.abc import Mapping

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from perf.workload import Size


def progress_bar() -> Progress:
    """A bar on standard error, which goes away at the end."""
    columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    return Progress(*columns, console=Console(stderr=True), transient=True)


def known(other: Mapping[str, int], size: Size) -> Mapping[str, int]:
    """The sizes among these that a workload has."""
    return {name: value for name, value in other.items() if name in size}


def parsed(text: str) -> tuple[str, int]:
    """`NAME=NUMBER`. Raises BadParameter."""
    name, _, value = text.partition("=")
    if not value.isdigit():
        raise click.BadParameter(f"write {name or 'name'}=NUMBER, not {text!r}", param_hint="--set")
    return name, int(value)
