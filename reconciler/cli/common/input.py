"""Reading manifests, and reporting what of them cannot be used."""

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import click

from reconciler.api.manifests.bundle import Bundle, bundle
from reconciler.api.manifests.documents import Refusal, documents
from reconciler.api.manifests.served import as_served
from reconciler.api.manifests.sources import SUFFIXES
from reconciler.cli.common.exits import Exit
from reconciler.cli.common.plain_text import plain
from reconciler.cli.common.progress import Work


def read_manifests(paths: Sequence[str], work: Work) -> Bundle:
    """Every manifest that `paths` names, with `-` for standard input. Never raises for what is in them."""
    found = bundle(work.each("reading manifests", documents(paths, sys.stdin.buffer)))
    if paths and not (found.size or found.refused or found.ignored):
        suffixes = ", ".join(SUFFIXES)
        click.echo(f"note: no object was read; of a directory, files that end in {suffixes} are", err=True)
    return found


def read_served(paths: Sequence[str]) -> list[dict[str, Any]]:
    """Every object of the manifests, as a server stores it. Ends the command where one is refused."""
    found = list(documents(paths, sys.stdin.buffer))
    refused = [document for document in found if isinstance(document, Refusal)]
    report_refused(refused)
    if refused:
        sys.exit(Exit.FAILED)
    warnings: list[str] = []
    raws = as_served(
        (document.raw for document in found if not isinstance(document, Refusal)), warnings.append
    )
    report_warnings(warnings)
    return raws


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
