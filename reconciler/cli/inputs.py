"""The options by which commands take manifests, and what is said about their reading."""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import click

from reconciler.cli.plain import plain
from reconciler.manifests.documents import Refusal

F = TypeVar("F", bound=Callable[..., Any])


def files_option(*, required: bool) -> Callable[[F], F]:
    """`-f`, as often as wanted; a directory is read with everything below it."""
    return click.option(
        "-f",
        "--filename",
        "files",
        multiple=True,
        required=required,
        type=click.Path(exists=True, readable=True, allow_dash=True),
        metavar="FILE|DIR|-",
        help="Manifests: a YAML or JSON file, a directory with all files below it, or - for standard input.",
    )


def report_refused(refused: Iterable[Refusal]) -> None:
    """One line on standard error for everything that could not be used."""
    for refusal in refused:
        click.echo(plain(f"refused: {refusal.problem}"), err=True)


def report_warnings(warnings: Iterable[str]) -> None:
    """One line on standard error for everything that was put right."""
    for warning in warnings:
        click.echo(plain(f"warning: {warning}"), err=True)


def report_ignored(ignored: Counter[str]) -> None:
    """One line on standard error that counts the objects of other kinds."""
    if ignored:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(ignored.items()))
        click.echo(plain(f"ignored: {kinds}"), err=True)
