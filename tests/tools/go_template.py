"""The part of Go's text/template that our chart keeps to, with the few functions Helm adds that it uses.

Not Helm: what is not in this part is refused, so that the chart cannot leave it unnoticed. In it are actions
with trim markers, if, else and with, pipelines, fields of the dot, text and numbers as arguments.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import yaml

_ACTION = re.compile(r"(?P<left>\s*\{\{-\s+|\{\{\s*)(?P<code>[^{}]*?)(?P<right>\s+-\}\}\s*|\s*\}\})")
_TOKEN = re.compile(
    r'\s*(?:(?P<text>"(?:[^"\\]|\\.)*")|(?P<number>-?[0-9]+)|(?P<word>[^\s|"]+)|(?P<pipe>\|))'
)
_FIELD = re.compile(r"\.|(\.[A-Za-z][A-Za-z0-9]*)+")


class NotInOurPart(Exception):
    """The template uses what this renderer does not know, or Go would refuse it."""


def render(template: str, dot: Mapping[str, Any]) -> str:
    """The text that Go makes of a template. Raises NotInOurPart."""
    pieces = _pieces(template)
    text, end = _block(pieces, 0, dot, live=True)
    if end != len(pieces):
        raise NotInOurPart(f"{pieces[end][1]} without a beginning")
    return text


def _pieces(template: str) -> list[tuple[str, str]]:
    """Text and actions in turn; text is trimmed as the markers beside it say."""
    found, at = [], 0
    for match in _ACTION.finditer(template):
        found += [("text", template[at : match.start()]), ("action", match["code"])]
        at = match.end()
    found.append(("text", template[at:]))
    if any("{{" in text or "}}" in text for kind, text in found if kind == "text"):
        raise NotInOurPart("braces that are no action")
    return found


def _block(pieces: Sequence[tuple[str, str]], at: int, dot: Any, *, live: bool) -> tuple[str, int]:
    """What the pieces make up to the `else` or `end` that ends them, and where that is."""
    out: list[str] = []
    while at < len(pieces):
        kind, content = pieces[at]
        keyword, _, rest = content.partition(" ")
        if kind == "text":
            out.append(content if live else "")
        elif keyword in ("else", "end"):
            break
        elif keyword in ("if", "with"):
            value = _pipeline(rest, dot) if live else None
            taken = live and _truth(value)
            text, at = _block(pieces, at + 1, value if keyword == "with" else dot, live=taken)
            out.append(text)
            if at < len(pieces) and pieces[at][1] == "else":
                text, at = _block(pieces, at + 1, dot, live=live and not taken)
                out.append(text)
            if at == len(pieces) or pieces[at][1] != "end":
                raise NotInOurPart(f"{content} without end")
        elif live:
            out.append(_shown(_pipeline(content, dot)))
        at += 1
    return "".join(out), at


def _pipeline(code: str, dot: Any) -> Any:
    """The value of commands, each of which gets the one before it as its last argument."""
    commands: list[list[Any]] = [[]]
    at = 0
    while at < len(code.rstrip()):
        match = _TOKEN.match(code, at)
        if match is None:
            raise NotInOurPart(code)
        at = match.end()
        if match["pipe"]:
            commands.append([])
        elif match["text"]:
            commands[-1].append(yaml.safe_load(match["text"]))
        elif match["number"]:
            commands[-1].append(int(match["number"]))
        else:
            commands[-1].append(_word(match["word"], dot))
    value: Any = None
    for number, (first, *rest) in enumerate(commands):
        arguments = [*rest, *([value] if number else [])]
        if callable(first):
            value = first(*arguments)
        elif arguments:
            raise NotInOurPart(f"arguments for what is no function: {code}")
        else:
            value = first
    return value


def _word(word: str, dot: Any) -> Any:
    if _FIELD.fullmatch(word):
        for name in word.split(".")[1:] if word != "." else ():
            if not isinstance(dot, Mapping):
                raise NotInOurPart(f"{word}: nothing has fields here")
            dot = dot.get(name)
        return dot
    if word not in _FUNCTIONS:
        raise NotInOurPart(f"function {word}")
    return _FUNCTIONS[word]


def _truth(value: Any) -> bool:
    """Empty is false, as in Go: zero, nothing, and what has no length."""
    return bool(value)


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int):
        return str(value)
    raise NotInOurPart(f"{value!r} has no text that is alike everywhere")


def _quoted(value: Any) -> str:
    text = _shown(value)
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _indented(spaces: int, text: str) -> str:
    return "\n" + "\n".join(" " * spaces + line for line in text.split("\n"))


def _printed(layout: str, *values: Any) -> str:
    if re.sub("%s", "", layout).count("%") or layout.count("%s") != len(values):
        raise NotInOurPart(f"printf {layout!r}")
    return layout % tuple(_shown(value) for value in values)


_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "quote": _quoted,
    "toYaml": lambda value: yaml.safe_dump(value, default_flow_style=False).removesuffix("\n"),
    "nindent": _indented,
    "default": lambda other, value: value if _truth(value) else other,
    "replace": lambda old, new, text: text.replace(old, new),
    "join": lambda between, values: between.join(map(_shown, values)),
    "printf": _printed,
    "eq": lambda one, *others: one in others,
    "ne": lambda one, other: one != other,
    "ge": lambda one, other: one >= other,
    "not": lambda value: not _truth(value),
    "and": lambda *values: next((one for one in values if not _truth(one)), values[-1]),
    "or": lambda *values: next((one for one in values if _truth(one)), values[-1]),
    "int": int,
    "ternary": lambda yes, no, value: yes if value else no,
    "first": lambda values: values[0],
    "toJson": lambda value: json.dumps(value, separators=(",", ":")),
}
