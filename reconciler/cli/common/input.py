"""Read manifests, and report what is invalid in them."""

import sys
from collections import Counter
from collections.abc import Iterable, Sequence

import click

from reconciler.api.manifests.bundle import Bundle, bundle
from reconciler.api.manifests.documents import Refusal, documents
from reconciler.api.manifests.sources import SUFFIXES
from reconciler.cli.common.plain_text import plain
from reconciler.cli.common.progress import ProgressTracker


def read_manifests(paths: Sequence[str], progress: ProgressTracker) -> Bundle:
    """Read all manifests in `paths`; `-` is standard input. Never raises for their content."""
    found = bundle(progress.each("reading manifests", documents(paths, sys.stdin.buffer)))
    if paths and not (found.size or found.refused or found.ignored):
        suffixes = ", ".join(SUFFIXES)
        click.echo(f"note: no object was read; in a directory, only {suffixes} files are read", err=True)
    return found


def report_refused(refused: Iterable[Refusal]) -> None:
    """Print a line to standard error for each invalid document or object."""
    for refusal in refused:
        click.echo(plain(f"refused: {refusal.problem}"), err=True)


def report_warnings(warnings: Iterable[str]) -> None:
    """Print a line to standard error for each fix that was made while reading."""
    for warning in warnings:
        click.echo(plain(f"warning: {warning}"), err=True)


def report_ignored(ignored: Counter[str]) -> None:
    """Print a line to standard error with the number of objects of other kinds."""
    if ignored:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(ignored.items()))
        click.echo(plain(f"ignored: {kinds}"), err=True)
