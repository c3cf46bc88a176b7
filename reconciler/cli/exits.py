"""Exit codes: the numbers, their meaning for each command, and how errors map to them.

Help and the tests read the table.
"""

import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import IntEnum

import click

from reconciler.errors import ReconcilerError


class Exit(IntEnum):
    """The codes of all commands. `EXITS` has the meaning of each code for each command."""

    OK = 0
    """The command succeeded, and the answer, if any, is yes."""
    FAILED = 1
    """The command failed in part or as a whole, or the answer is no."""
    USAGE = 2
    """The command line is invalid, or names an object that does not exist: there is no answer."""
    PARTIAL = 3
    """The command succeeded, but some claims are pending or there are warnings."""


_USAGE = "the command line is invalid"

EXITS: Mapping[str, Mapping[Exit, str]] = {
    "allocate": {
        Exit.OK: "all claims are allocated and all pods have their devices",
        Exit.FAILED: "some of the input is invalid; the rest was processed",
        Exit.USAGE: _USAGE,
        Exit.PARTIAL: "some claims or pods are pending",
    },
    "apiserver": {
        Exit.OK: "the server was stopped by a signal",
        Exit.FAILED: "the input is invalid, or the server cannot listen on the address",
        Exit.USAGE: _USAGE,
    },
    "capacity": {
        Exit.OK: "the demand fits, now or on the nodes that the answer names",
        Exit.FAILED: "part of the demand fits on no shape, or one of several clusters has no answer",
        Exit.USAGE: f"{_USAGE}, a named node does not exist, or the input or the server cannot be read",
    },
    "completion": {Exit.OK: "the script was printed", Exit.USAGE: _USAGE},
    "convert": {
        Exit.OK: "all objects were written",
        Exit.FAILED: "some of the input is invalid or cannot be converted; the rest was written",
        Exit.USAGE: _USAGE,
    },
    "defragment": {
        Exit.OK: "the plan gains what was wanted, or nothing has to be moved",
        Exit.FAILED: "no plan with so much gain was found",
        Exit.USAGE: f"{_USAGE}, the fleet has nothing of the name, or input or server cannot be read",
    },
    "demo": {
        Exit.OK: "all sample claims are allocated or pending with a reason",
        Exit.FAILED: "some claims were not decided in time",
        Exit.USAGE: _USAGE,
    },
    "doctor": {
        Exit.OK: "there are no errors; with --strict, no warnings either",
        Exit.FAILED: "there are errors, or the server cannot be read",
        Exit.USAGE: _USAGE,
        Exit.PARTIAL: "there are warnings but no errors, with --strict",
    },
    "drain": {
        Exit.OK: "everything can go elsewhere",
        Exit.FAILED: "something cannot go elsewhere",
        Exit.USAGE: f"{_USAGE}, a named object does not exist, or the input or the server cannot be read",
    },
    "explain": {
        Exit.OK: "the claim is allocated, or can be allocated",
        Exit.FAILED: "the claim cannot be allocated now",
        Exit.USAGE: f"{_USAGE}, the claim does not exist, or the input or the server cannot be read",
    },
    "fit": {
        Exit.OK: "all pods of all sets fit together",
        Exit.FAILED: "some pods do not fit",
        Exit.USAGE: f"{_USAGE}, a named object does not exist, or the input or the server cannot be read",
    },
    "logs": {
        Exit.OK: "some lines match",
        Exit.FAILED: "no line of dra-reconciler matches",
        Exit.USAGE: _USAGE,
    },
    "make-room": {
        Exit.OK: "it has its devices, or fits, now or when the named pods are gone",
        Exit.FAILED: "no room can be made, or the search gave up",
        Exit.USAGE: f"{_USAGE}, the name does not exist, or the input or the server cannot be read",
    },
    "migrate": {
        Exit.OK: "everything was rewritten, or nothing had to be",
        Exit.FAILED: "some of the input is invalid or cannot be rewritten; the rest was rewritten",
        Exit.USAGE: f"{_USAGE}, or the mapping file is invalid",
        Exit.PARTIAL: "some resources stand for no class and were left",
    },
    "modes": {
        Exit.OK: "the table was printed",
        Exit.FAILED: "the server cannot be read, or some of the input is invalid",
        Exit.USAGE: _USAGE,
    },
    "release-gates": {
        Exit.OK: "all gates were removed, or there was none",
        Exit.FAILED: "some gates could not be removed, or the server cannot be read",
        Exit.USAGE: _USAGE,
    },
    "replay": {
        Exit.OK: "all decisions are the same",
        Exit.FAILED: "some decisions differ",
        Exit.USAGE: f"{_USAGE}, or the path is not a journal",
    },
    "run": {
        Exit.OK: "it was stopped by a signal and finished the writes in progress",
        Exit.FAILED: "it cannot start: a setting is invalid, nothing is owned, or the server cannot be used",
        Exit.USAGE: _USAGE,
    },
    "top": {
        Exit.OK: "the table was printed",
        Exit.FAILED: "the server cannot be read, or some of the input is invalid; the rest was counted",
        Exit.USAGE: f"{_USAGE}, or a named driver or node does not exist",
    },
    "whatif": {
        Exit.OK: "the claims fit, and all lost claims can be allocated elsewhere",
        Exit.FAILED: "the claims do not fit, or a lost claim cannot be allocated elsewhere",
        Exit.USAGE: f"{_USAGE}, a named object does not exist, or the input or the server cannot be read",
    },
}
"""Command -> exit code -> meaning"""


def exits_text(command: str) -> str:
    """The exit codes of a command, for the end of its help; empty if the table has none."""
    codes = EXITS.get(command)
    if codes is None:
        return ""
    lines = ["\b", "Exit codes:"]
    for code, meaning in codes.items():
        # click indents the text by two columns, and does not wrap it.
        lines += textwrap.wrap(f"  {code}  {meaning}", 76, subsequent_indent=" " * 5)
    return "\n".join(lines)


class Failure(click.ClickException):
    """The input or the server cannot be read. The message is wrapped between words on a terminal."""

    def show(self, _file: object = None) -> None:
        """Print the message on standard error."""
        _remark(f"Error: {self.format_message()}")


class NoAnswer(Failure):
    """A question has no answer: a named object does not exist, or the server cannot be read."""

    exit_code = Exit.USAGE


@contextmanager
def errors_as(error: type[click.ClickException]) -> Iterator[None]:
    """Exit with this error if the block cannot read its input or connection its server."""
    try:
        yield
    except (ReconcilerError, OSError) as exc:
        raise error(str(exc)) from exc


@contextmanager
def exit_on_errors() -> Iterator[None]:
    """Exit with `Exit.FAILED` if tasks of the block fail, and print each of their errors."""
    failures: list[BaseException] = []
    try:
        yield
    except* (ReconcilerError, OSError) as group:
        failures = list(_leaves(group.exceptions))
    if failures:
        for failure in failures:
            _remark(f"Error: {failure}")
        sys.exit(Exit.FAILED)


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
