"""Read manifests, and report what is invalid in them."""

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from reconciler.api.manifests.bundle import Bundle, bundle
from reconciler.api.manifests.documents import Refusal, documents
from reconciler.api.manifests.served import as_served
from reconciler.api.manifests.sources import SUFFIXES
from reconciler.cli.common.exits import Exit
from reconciler.cli.common.output import remark
from reconciler.cli.common.progress import ProgressTracker


def read_manifests(paths: Sequence[str], progress: ProgressTracker) -> Bundle:
    """Read all manifests in `paths`; `-` is standard input. Never raises for their content."""
    found = bundle(progress.each("reading manifests", documents(paths, sys.stdin.buffer)))
    if paths and not (found.size or found.refused or found.ignored):
        suffixes = ", ".join(SUFFIXES)
        remark(f"note: no object was read; in a directory, only {suffixes} files are read")
    return found


def read_for_server(paths: Sequence[str]) -> list[dict[str, Any]]:
    """Read all objects of the manifests in the form that a server stores. Exits if one is invalid."""
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
    """Print a line to standard error for each invalid document or object."""
    for refusal in refused:
        remark(f"refused: {refusal.problem}")


def report_warnings(warnings: Iterable[str]) -> None:
    """Print a line to standard error for each fix that was made while reading."""
    for warning in warnings:
        remark(f"warning: {warning}")


def report_ignored(ignored: Counter[str]) -> None:
    """Print a line to standard error with the number of objects of other kinds."""
    if ignored:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(ignored.items()))
        remark(f"ignored: {kinds}")
