"""The options by which commands take manifests, and what is said about their reading."""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import click

from reconciler.cli.plain import plain
from reconciler.cli.working import Work
from reconciler.errors import Rejected
from reconciler.manifests.bundle import Bundle, bundle
from reconciler.manifests.documents import Refusal, documents
from reconciler.manifests.sources import SUFFIXES
from reconciler.objects.semantics import with_gates, with_group_modes

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


def group_mode_option() -> Callable[[F], F]:
    """`--group-mode`, once for each driver."""
    return click.option(
        "--group-mode",
        "group_modes",
        multiple=True,
        callback=_group_modes,
        metavar="DRIVER=MODE",
        help="How a driver's compatibility groups are compared: kep-5963 or pairwise; * is every other "
        "driver.  [default: *=kep-5963]",
    )


def _group_modes(
    _context: click.Context, _option: click.Parameter, texts: tuple[str, ...]
) -> tuple[str, ...]:
    try:
        with_group_modes(texts)
    except Rejected as exc:
        raise click.BadParameter(str(exc)) from exc
    return texts


def gates_option() -> Callable[[F], F]:
    """`--feature-gates`, for commands that ask no server which it has."""
    return click.option(
        "--feature-gates",
        "gates",
        default="",
        callback=_gates,
        metavar="A=true,B=false",
        help="Feature gates to turn on or off; all are on unless turned off here.",
    )


def _gates(_context: click.Context, _option: click.Parameter, text: str) -> frozenset[str]:
    try:
        return with_gates(text)
    except Rejected as exc:
        raise click.BadParameter(str(exc)) from exc


def read_manifests(paths: Sequence[str], work: Work) -> Bundle:
    """Every manifest that `paths` names, with `-` for standard input. Never raises for what is in them."""
    found = bundle(work.each("reading manifests", documents(paths, sys.stdin.buffer)))
    if paths and not (found.size or found.refused or found.ignored):
        suffixes = ", ".join(SUFFIXES)
        click.echo(f"note: no object was read; of a directory, files that end in {suffixes} are", err=True)
    return found


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
