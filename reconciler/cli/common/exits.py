"""Exit codes: the numbers, what they mean for each command, and how errors become one.

Help, docs/commands.md and the tests are made from the table.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import IntEnum

import click

from reconciler.errors import ReconcilerError


class Exit(IntEnum):
    """The codes of all commands. `EXITS` says what each means for one command."""

    OK = 0
    """The command did what was asked, and any answer is yes."""
    FAILED = 1
    """The command could not do all of it, or the answer is no."""
    USAGE = 2
    """The command line is wrong, or names what is not there, so there is no answer."""
    PARTIAL = 3
    """The command did all of it, and the result is not what was hoped for."""


_USAGE = "the command line is wrong"

EXITS: Mapping[str, Mapping[Exit, str]] = {
    "allocate": {
        Exit.OK: "every claim is allocated and every pod served",
        Exit.FAILED: "some of the input was refused; the rest was done",
        Exit.USAGE: _USAGE,
        Exit.PARTIAL: "some claims or pods got nothing",
    },
    "apiserver": {
        Exit.OK: "it served until it was told to end",
        Exit.FAILED: "the input or an object in it was refused, or the address cannot be listened on",
        Exit.USAGE: _USAGE,
    },
    "completion": {Exit.OK: "the script was printed", Exit.USAGE: _USAGE},
    "convert": {
        Exit.OK: "everything was written",
        Exit.FAILED: "some of the input was rejected or cannot be converted; the rest was written",
        Exit.USAGE: _USAGE,
    },
    "demo": {
        Exit.OK: "all was shown",
        Exit.FAILED: "the reconciler did not come to rest",
        Exit.USAGE: _USAGE,
    },
    "doctor": {
        Exit.OK: "nothing is worse than a note; or there are warnings, without --strict",
        Exit.FAILED: "there are errors, or the server cannot be asked",
        Exit.USAGE: _USAGE,
        Exit.PARTIAL: "there are warnings and no errors, with --strict",
    },
    "explain": {
        Exit.OK: "it is allocated, or can be",
        Exit.FAILED: "it cannot be allocated now",
        Exit.USAGE: f"{_USAGE}, there is no such claim, or the input or the server cannot be read",
    },
    "logs": {
        Exit.OK: "there are such lines",
        Exit.FAILED: "there is no such line of ours",
        Exit.USAGE: _USAGE,
    },
    "modes": {
        Exit.OK: "it was shown",
        Exit.FAILED: "the server cannot be asked, or some of the input was refused",
        Exit.USAGE: _USAGE,
    },
    "replay": {
        Exit.OK: "all decisions are the same",
        Exit.FAILED: "some are different",
        Exit.USAGE: f"{_USAGE}, or this is no journal",
    },
    "run": {
        Exit.OK: "it was told to end, and begun writes finished",
        Exit.FAILED: "it cannot start: a setting is wrong, nothing is owned, or the server cannot be used",
        Exit.USAGE: _USAGE,
    },
    "top": {Exit.OK: "it was shown", Exit.FAILED: "the server cannot be asked", Exit.USAGE: _USAGE},
    "whatif": {
        Exit.OK: "it fits, and what is lost finds another place",
        Exit.FAILED: "it does not",
        Exit.USAGE: f"{_USAGE}, what is named is not there, or the input or the server cannot be read",
    },
}
"""Command -> exit code -> meaning"""


def exits_text(command: str) -> str:
    """The codes of a command as its help ends with them; empty if it has none of its own."""
    found = EXITS.get(command)
    if found is None:
        return ""
    return "\n".join(["\b", "Exits with", *(f"  {code}  {meaning}" for code, meaning in found.items())])


class NoAnswer(click.ClickException):
    """A question has no answer: what it names is not there, or nobody can be asked."""

    exit_code = Exit.USAGE


@contextmanager
def errors_as(error: type[click.ClickException]) -> Iterator[None]:
    """End the command with this error when the block cannot read its input or reach its server."""
    try:
        yield
    except (ReconcilerError, OSError) as exc:
        raise error(str(exc)) from exc


@contextmanager
def failing() -> Iterator[None]:
    """End the command with `Exit.FAILED` when tasks of the block fail, and print each of their errors."""
    failures: list[BaseException] = []
    try:
        yield
    except* (ReconcilerError, OSError) as group:
        failures = list(_leaves(group.exceptions))
    if failures:
        for failure in failures:
            click.echo(f"error: {failure}", err=True)
        sys.exit(Exit.FAILED)


def _leaves(failures: Iterable[BaseException]) -> Iterator[BaseException]:
    for failure in failures:
        if isinstance(failure, BaseExceptionGroup):
            yield from _leaves(failure.exceptions)
        else:
            yield failure
