"""Log lines for people at a terminal: one short line for each event. JSON has all fields."""

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from structlog.typing import EventDict

HIDDEN = frozenset(
    {
        *("timestamp", "level", "logger", "event", "exception"),
        *("decision_id", "counts", "steps", "nodes", "paths", "pending_seconds"),
    }
)
"""Fields for programs, and those that are shown another way"""
PROSE = ("message", "error", "why", "remedy")
"""Fields whose text needs no name; they come last"""
ALONE = "url"
"""A field with a line of its own, so that a terminal can open it and a double click selects it"""
MOST_NAMED = 3
"""Names of a list to show; of more, only how many there are"""
CUT = " ..."
_COLOURS = {"warning": "\x1b[33m", "error": "\x1b[31m", "critical": "\x1b[31m"}
_BOLD, _RESET = "\x1b[1m", "\x1b[0m"
_HANGING = " " * 9


class TerminalRenderer:
    """Renders an event as `12:03:04 claim allocated: default/c gpu-0 node=n1 (12 ms)`.

    What has happened as planned gets exactly one line, cut between words if it is too long. Warnings and
    errors are never cut; they are wrapped.
    """

    def __init__(self, width: Callable[[], int], *, colours: bool) -> None:
        """`width` is the number of columns of the terminal, which may change."""
        self._width = width
        self._colours = colours

    def __call__(self, _logger: Any, _method: str, event: EventDict) -> str:
        """Return the text of one event."""
        level = str(event.get("level", "info"))
        calm = level in ("info", "debug")
        title = str(event.get("event", ""))
        start = f"{_time(event)} {'' if calm else f'{level}: '}{title}"
        words = " ".join(_parts(event)).split()
        lines = [_cut(start, words, self._width())] if calm else _wrapped(start, words, self._width())
        if self._colours:
            style = _COLOURS.get(level, "") + _BOLD
            lines[0] = lines[0].replace(title, f"{style}{title}{_RESET}", 1)
        if event.get(ALONE):
            lines.append(str(event[ALONE]))
        if event.get("exception"):
            lines.append(str(event["exception"]))
        return "\n".join(lines)


def _time(event: EventDict) -> str:
    """The time on the clock of this machine; empty without a time."""
    try:
        return f"{datetime.fromisoformat(str(event['timestamp'])).astimezone():%H:%M:%S}"
    except (KeyError, ValueError):
        return ""


def _parts(event: EventDict) -> Iterator[str]:
    """Yield the fields that are shown: names, numbers, then sentences."""
    for name, value in event.items():
        if name in HIDDEN or name in PROSE or name == ALONE or value in (None, "", [], ()):
            continue
        if name == "duration_ms":
            yield f"({value:.0f} ms)"
        elif name in ("claim", "claims", "pod", "pods", "unit", "devices", "device", "reason", "server"):
            yield _text(name, value)
        else:
            yield f"{name}={_text(name, value)}"
    yield from (_text(name, event[name]) for name in PROSE if event.get(name))


def _text(name: str, value: Any) -> str:
    """A value without brackets and quotes. Devices without driver and pool, as far as there are few."""
    if not isinstance(value, (list, tuple)):
        return " ".join(_plain(str(value)).split())
    found = [_plain(str(one)) for one in value]
    if name == "devices":
        found = [one.rpartition("/")[2] for one in found]
    more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    return ", ".join(found[:MOST_NAMED]) + more


def _plain(text: str) -> str:
    return "".join(one if one.isprintable() or one.isspace() else repr(one)[1:-1] for one in text)


def _cut(start: str, words: list[str], width: int) -> str:
    """One line with the words that fit; at least the first, which says what it is about."""
    line = start + ":" if words else start
    for at, word in enumerate(words):
        rest = len(CUT) if at < len(words) - 1 else 0
        if at and len(line) + 1 + len(word) + rest > width:
            return line + CUT
        line = f"{line} {word}"
    return line


def _wrapped(start: str, words: list[str], width: int) -> list[str]:
    lines = [start + ":" if words else start]
    for word in words:
        if len(lines[-1]) + 1 + len(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(_HANGING + word)
    return lines
