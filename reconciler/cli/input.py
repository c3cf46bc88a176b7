"""Reads the objects of manifests or of a cluster, and reports what is invalid in them."""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from reconciler.api.manifests import documents as manifests
from reconciler.api.manifests.bundle import Bundle, bundle, unknown_parts
from reconciler.api.objects.meta import ApiObject
from reconciler.api.versions.reading import read
from reconciler.cel.refusals import REFUSES
from reconciler.cli.exits import NoAnswer, note_refusal
from reconciler.cli.options import strict
from reconciler.cli.output import SILENT, ProgressTracker, remark
from reconciler.cli.rule_options import rules_of_command
from reconciler.errors import Malformed, counted


def read_manifests(paths: Sequence[str], progress: ProgressTracker) -> Bundle:
    """Read all manifests in `paths`; `-` is standard input. Never raises for their content."""
    return _bundle(manifests.documents(paths, sys.stdin.buffer), paths, progress)


def _bundle(
    read: Iterable[manifests.Document | manifests.InvalidDocument],
    paths: Sequence[str],
    progress: ProgressTracker,
) -> Bundle:
    found = known_alone(bundle(progress.each("reading manifests", read), REFUSES, rules_of_command()))
    if paths and not (found.size or any(map(_is_question, found.others.values()))):
        report_refused(found.refused)
        raise NoAnswer(nothing_usable(len(found.refused), found.ignored) or nothing_in(paths))
    return found


def known_alone(found: Bundle) -> Bundle:
    """Report fields and kinds that no release has; with `--strict`, refuse their objects."""
    unknown = [*unknown_parts(found)]
    if not strict():
        for problem in unknown:
            remark(f"warning: {problem.problem}")
        return found
    origins = {problem.origin for problem in unknown}
    entries = {
        kind: {key: entry for key, entry in of_kind.items() if entry.origin not in origins}
        for kind, of_kind in found.entries.items()
    }
    return replace(found, entries=entries, refused=(*found.refused, *unknown))


def _is_question(document: manifests.Document) -> bool:
    """Whether it is a Demand or a FitRequest, which some commands read."""
    return str(document.raw.get("apiVersion")).startswith("dra-reconciler.io/")


def nothing_usable(refused: int, others: Mapping[str, int]) -> str:
    """What was found instead of an object that can be read, by kind; empty if nothing was."""
    found = [counted(refused, "invalid object")] if refused else []
    found += [f"{count} {kind}" for kind, count in sorted(others.items())]
    return f"no object that is used here was read, only {', '.join(found)}" if found else ""


def nothing_in(paths: Iterable[str]) -> str:
    """Why none of the paths has an object."""
    return "; ".join(map(_nothing_in, paths))


def _nothing_in(path: str) -> str:
    if path == manifests.STDIN:
        return "standard input is empty"
    if not Path(path).is_dir():
        return f"{path} is empty" if Path(path).stat().st_size == 0 else f"{path} has no object"
    found = len(manifests.manifests_in(Path(path)))
    if found:
        return f"{path} has no object: {counted(found, 'file')} of it {'is' if found == 1 else 'are'} empty"
    return f"{path} has no file that ends in {', '.join(manifests.SUFFIXES)}"


MOST_MISTAKES = 4
"""Mistakes of one object that are printed; doctor lists all"""


def report_refused(refused: Iterable[manifests.InvalidDocument]) -> None:
    """Print to standard error what is wrong with each invalid document or object, a line for each mistake."""
    for refusal in refused:
        problem = refusal.problem
        remark(f"refused: {problem}")
        for field, reason in problem.others[: MOST_MISTAKES - 1]:
            remark(f"refused: {problem.subject}: {field}: {reason}")
        if more := len(problem.others[MOST_MISTAKES - 1 :]):
            remark(f"refused: {problem.subject}: {counted(more, 'more mistake')}; see dra-reconciler doctor")
        note_refusal()


def report_warnings(warnings: Iterable[str]) -> None:
    """Print a line to standard error for each fix that was made while reading."""
    for warning in warnings:
        remark(f"warning: {warning}")


def report_ignored(ignored: Counter[str]) -> None:
    """Print a line to standard error with the number of objects of other kinds."""
    if ignored:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(ignored.items()))
        remark(f"ignored: {kinds}")


def read_files(files: Sequence[str], progress: ProgressTracker = SILENT) -> Bundle:
    """Read manifests. Prints warnings and invalid objects to standard error."""
    bundle = read_manifests(files, progress)
    report_warnings(bundle.warnings)
    report_refused(bundle.refused)
    return bundle


def read_first_file_and_all(files: Sequence[str], progress: ProgressTracker) -> tuple[Bundle, Bundle]:
    """The same for a command whose first file holds its question: that file by itself, and all of them.

    Each is read once: standard input has no second time.
    """
    if len(files) == 1:
        found = read_files(files, progress)
        return found, found
    first = list(manifests.documents(files[:1], sys.stdin.buffer))
    every = _bundle(chain(first, manifests.documents(files[1:], sys.stdin.buffer)), files, progress)
    report_warnings(every.warnings)
    report_refused(every.refused)
    return bundle(first, REFUSES, rules_of_command()), every


def read_valid(raws: Iterable[dict[str, Any]]) -> Iterator[ApiObject]:
    """The valid ones among the objects of a server. Prints the invalid ones to standard error."""
    for raw in raws:
        try:
            yield read(raw)
        except Malformed as exc:
            remark(f"refused: {exc}")
