"""Exit codes: one contract for all commands, what yes and no mean for each, and how errors map to codes.

Help and the tests read the table.
"""

import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import IntEnum

import click

from reconciler.errors import Inconsistent, ReconcilerError


class Exit(IntEnum):
    """The codes of all commands."""

    YES = 0
    """The answer is yes: all that was asked for is so."""
    NO = 1
    """The answer is no, work is pending, there are findings, or part of the input was refused."""
    USAGE = 2
    """The command line is invalid, or nothing that was named can be read: there is no answer."""
    UNREACHABLE = 3
    """The cluster cannot be reached, or does not allow it."""


CONTRACT: Mapping[Exit, str] = {
    Exit.YES: "yes: all that was asked for is so, and all of the input was read",
    Exit.NO: "no; work is pending, there are findings, or some input was refused",
    Exit.USAGE: "the command line is invalid, or nothing that it names can be read",
    Exit.UNREACHABLE: "the cluster cannot be reached, or does not allow it",
}
"""What the codes mean for all commands"""
OFFLINE = frozenset({"allocate", "apiserver", "completion", "convert", "demo", "logs", "migrate", "replay"})
"""Commands that talk to no cluster: they have no code 3"""

ANSWERS: Mapping[str, tuple[str, str]] = {
    "allocate": (
        "all claims are allocated and all pods have their devices",
        "some claims or pods are pending",
    ),
    "apiserver": ("the server was stopped by a signal", ""),
    "capacity": (
        "the demand fits, now or on the nodes that the answer names",
        "part of the demand fits on no shape, or some of several clusters have no answer",
    ),
    "completion": ("the script was printed", ""),
    "convert": ("all objects were written", "some of the input cannot be converted; the rest was written"),
    "dashboard": ("the page was served until a signal", ""),
    "defragment": (
        "the plan gains what was wanted, or nothing has to be moved",
        "no plan with so much gain was found",
    ),
    "demo": (
        "all sample claims are allocated or pending with a reason",
        "some claims were not decided in time",
    ),
    "doctor": (
        "there are no errors; with --strict, no warnings either",
        "there are errors; with --strict, also if there are warnings",
    ),
    "drain": ("everything can go elsewhere", "something cannot go elsewhere"),
    "explain": (
        "the claim is allocated, or can be allocated; of a list: nothing is pending",
        "the claim cannot be allocated now; of a list: something is pending",
    ),
    "fit": ("all pods of all sets fit together", "some pods do not fit"),
    "logs": ("some lines match", "no line matches"),
    "make-room": (
        "it has its devices, or fits, now or when the named pods are gone",
        "no room can be made, or the search gave up",
    ),
    "migrate": (
        "everything was rewritten, or nothing had to be",
        "something cannot be rewritten, or stands for no class; the rest was rewritten",
    ),
    "modes": ("the table was printed", "some of the input was refused; the rest was shown"),
    "release-gates": ("all gates were removed, or there was none", "some gates could not be removed"),
    "replay": ("all decisions are the same", "some decisions differ"),
    "run": (
        "it was stopped by a signal and finished the writes in progress",
        "an invariant of the program is broken: it stopped",
    ),
    "top": ("the table was printed", "some of the input was refused; the rest was counted"),
    "whatif": (
        "the claims fit, and all lost claims can be allocated elsewhere",
        "the claims do not fit, or a lost claim cannot be allocated elsewhere",
    ),
}
"""Command -> what 0 and 1 mean. Every command also ends with 1 if part of its files was refused."""


def exit_codes(command: str) -> dict[Exit, str]:
    """The exit codes of a command with their meanings; none for an unknown command."""
    if command not in ANSWERS:
        return {}
    yes, no = ANSWERS[command]
    codes = {**CONTRACT, Exit.YES: yes, Exit.NO: no}
    absent = ({Exit.UNREACHABLE} if command in OFFLINE else set()) | (set() if no else {Exit.NO})
    return {code: meaning for code, meaning in codes.items() if code not in absent}


def exits_text(codes: Mapping[Exit, str]) -> str:
    """Exit codes with their meanings, for the end of a help."""
    lines = ["\b", "Exit codes:"]
    for code, meaning in codes.items():
        # click indents the text by two columns, and does not wrap it.
        lines += textwrap.wrap(f"  {code}  {meaning}", 76, subsequent_indent=" " * 5)
    return "\n".join(lines)


class NoAnswer(click.ClickException):
    """Nothing that was named can be read, or a named object does not exist."""

    exit_code = Exit.USAGE

    def show(self, _file: object = None) -> None:
        """Print the message on standard error, on a terminal wrapped between words."""
        _remark(f"Error: {self.format_message()}")


class Unreachable(NoAnswer):
    """The cluster cannot be reached, or does not allow it."""

    exit_code = Exit.UNREACHABLE


@contextmanager
def errors_as(error: type[NoAnswer]) -> Iterator[None]:
    """Exit with this error if the block cannot read its input or its server."""
    try:
        yield
    except BrokenPipeError:  # whoever reads the output has enough: click ends the command, silently
        raise
    except (ReconcilerError, OSError) as exc:
        raise error(str(exc)) from exc


@contextmanager
def exit_on_errors(code: Exit) -> Iterator[None]:
    """Exit if tasks of the block fail, and print each of their errors: with this code, or that of NoAnswer.

    A broken invariant of the program is no fault of what was asked: it ends with `Exit.NO`.
    """
    failures: list[BaseException] = []
    try:
        yield
    except* (ReconcilerError, OSError, NoAnswer) as group:
        failures = list(_leaves(group.exceptions))
    if failures:
        for failure in failures:
            _remark(f"Error: {failure}")
        if any(isinstance(one, Inconsistent) for one in failures):
            code = Exit.NO
        sys.exit(next((one.exit_code for one in failures if isinstance(one, NoAnswer)), code))


def exit_unless(yes: bool) -> None:
    """Exit with `Exit.NO` unless the answer is yes."""
    if not yes:
        sys.exit(Exit.NO)


_PART_REFUSED = "reconciler.part_refused"


def note_refusal() -> None:
    """Part of the input was refused: the command will not end with `Exit.YES`."""
    context = click.get_current_context(silent=True)
    if context is not None:
        context.meta[_PART_REFUSED] = True


def exit_if_refused() -> None:
    """Exit with `Exit.NO` if part of the input was refused: the last thing of every command."""
    exit_unless(_PART_REFUSED not in click.get_current_context().meta)


def _remark(line: str) -> None:
    # Late import: help and completion need none of it.
    from reconciler.cli.output import remark  # noqa: PLC0415

    remark(line)


def _leaves(failures: Iterable[BaseException]) -> Iterator[BaseException]:
    for failure in failures:
        if isinstance(failure, BaseExceptionGroup):
            yield from _leaves(failure.exceptions)
        else:
            yield failure
