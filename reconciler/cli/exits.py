"""The exit code of every command and what it means: what help, docs/commands.md and the tests are made from.

0 is what was hoped for, 2 is a wrong command line everywhere; the others are the command's own.
"""

from collections.abc import Mapping

_USAGE = "the command line is wrong"

EXITS: Mapping[str, Mapping[int, str]] = {
    "allocate": {
        0: "every claim is allocated and every pod served",
        1: "some of the input was refused; the rest was done",
        2: _USAGE,
        3: "some claims or pods got nothing",
    },
    "apiserver": {
        0: "it served until it was told to end",
        1: "the input or an object in it was refused, or the address cannot be listened on",
        2: _USAGE,
    },
    "completion": {0: "the script was printed", 2: _USAGE},
    "convert": {
        0: "everything was written",
        1: "some of the input was refused or cannot be expressed; the rest was written",
        2: _USAGE,
    },
    "demo": {0: "all was shown", 1: "the reconciler did not come to rest", 2: _USAGE},
    "doctor": {
        0: "nothing is worse than a note; or there are warnings, without --strict",
        1: "there are errors, or the server cannot be asked",
        2: _USAGE,
        3: "there are warnings and no errors, with --strict",
    },
    "explain": {
        0: "it is allocated, or can be",
        1: "it cannot be allocated now",
        2: "the command line is wrong, there is no such claim, or the input or the server cannot be read",
    },
    "logs": {0: "there are such lines", 1: "there is no such line of ours", 2: _USAGE},
    "modes": {
        0: "it was shown",
        1: "the server cannot be asked, or some of the input was refused",
        2: _USAGE,
    },
    "replay": {
        0: "all decisions are the same",
        1: "some are different",
        2: "the command line is wrong, or this is no journal",
    },
    "run": {
        0: "it was told to end, and begun writes finished",
        1: "it cannot start: a setting is wrong, nothing is owned, or the server cannot be used",
        2: _USAGE,
    },
    "top": {0: "it was shown", 1: "the server cannot be asked", 2: _USAGE},
    "whatif": {
        0: "it fits, and what is lost finds another place",
        1: "it does not",
        2: "the command line is wrong, what is named is not there, or the input or the server cannot be read",
    },
}
"""Command -> exit code -> meaning"""


def exits_text(command: str) -> str:
    """The codes of a command as its help ends with them; empty if it has none of its own."""
    found = EXITS.get(command)
    if found is None:
        return ""
    return "\n".join(["\b", "Exits with", *(f"  {code}  {meaning}" for code, meaning in found.items())])
