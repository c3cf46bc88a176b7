"""docs/logs.md, made from the catalogue: `python -m reconciler.operations.logs.document > docs/logs.md`."""

import sys
from collections.abc import Iterable, Iterator

from reconciler.operations.logs.catalogue import DECISIONS, PROCESS, TURNS, Event
from reconciler.operations.logs.fields import COMMON, FIELDS

_HEAD = """\
# Log lines

`dra-reconciler run` writes one JSON object a line to standard error (`--log-format json`; text on a
terminal). Decisions are `info`, the talk with the server is `debug`; what libraries say comes from `warning`
upwards. No line holds a token, a secret or a request's body. This page is made from
`reconciler/control/decisions/decisions.py` and `reconciler/operations/logs/catalogue.py`.

`dra-reconciler logs FILE` reads such lines: counts by reason, latencies, the slowest decisions, and with
`--claim` what happened to one claim.
"""
_JSON = {str: "string", int: "number", float: "number", list: "list", dict: "object", type(None): "null"}


def page() -> str:
    """The whole page."""
    sections = (("Decisions", DECISIONS), ("Turns", TURNS), ("Process", PROCESS))
    lines = [line for title, events in sections for line in _section(title, events)]
    return "\n".join([_HEAD, *lines, *_fields()])


def _section(title: str, events: Iterable[Event]) -> Iterator[str]:
    yield f"## {title}\n"
    yield "| event | level | meaning | fields |"
    yield "|---|---|---|---|"
    for event in events:
        fields = [f"`{name}`" for name in event.fields] + [
            f"`{name}`?" for name in event.maybe if name != "*"
        ]
        yield f"| `{event.name}` | {event.level} | {event.meaning} | {', '.join(fields)} |"
    yield ""


def _fields() -> Iterator[str]:
    yield "## Fields\n"
    common = ", ".join(f"`{name}`" for name in COMMON)
    yield f"Every line has {common}. A field with `?` is there where it applies.\n"
    yield "| field | type | what it is |"
    yield "|---|---|---|"
    for name, (types, meaning) in FIELDS.items():
        yield f"| `{name}` | {' or '.join(dict.fromkeys(_JSON[one] for one in types))} | {meaning} |"
    yield ""


if __name__ == "__main__":
    sys.stdout.write(page())
