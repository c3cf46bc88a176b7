"""Read manifests, and report what is invalid in them."""

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path

from reconciler.api.manifests.bundle import Bundle, bundle
from reconciler.api.manifests.documents import Document, Refusal, documents
from reconciler.api.manifests.sources import STDIN, SUFFIXES, manifests_in
from reconciler.cli.common.output import remark
from reconciler.cli.common.plain_text import counted
from reconciler.cli.common.progress import ProgressTracker


def read_manifests(paths: Sequence[str], progress: ProgressTracker) -> Bundle:
    """Read all manifests in `paths`; `-` is standard input. Never raises for their content."""
    return _bundle(documents(paths, sys.stdin.buffer), paths, progress)


def read_first_and_all(paths: Sequence[str], progress: ProgressTracker) -> tuple[Bundle, Bundle]:
    """The manifests of the first path, and of all. Each is read once: standard input has no second time."""
    if len(paths) == 1:
        found = read_manifests(paths, progress)
        return found, found
    first = list(documents(paths[:1], sys.stdin.buffer))
    others = documents(paths[1:], sys.stdin.buffer)
    return bundle(first), _bundle(chain(first, others), paths, progress)


def _bundle(read: Iterable[Document | Refusal], paths: Sequence[str], progress: ProgressTracker) -> Bundle:
    found = bundle(progress.each("reading manifests", read))
    if not (found.size or found.refused or found.others):
        report_nothing(paths)
    return found


def report_nothing(paths: Iterable[str]) -> None:
    """Print a line to standard error for each path, because none of them has an object."""
    for path in paths:
        remark(f"note: {_nothing_in(path)}")


def _nothing_in(path: str) -> str:
    if path == STDIN:
        return "standard input is empty"
    if not Path(path).is_dir():
        return f"{path} is empty" if Path(path).stat().st_size == 0 else f"{path} has no object"
    found = len(manifests_in(Path(path)))
    if found:
        return f"{path} has no object: {counted(found, 'file')} of it {'is' if found == 1 else 'are'} empty"
    return f"{path} has no file that ends in {', '.join(SUFFIXES)}"


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
