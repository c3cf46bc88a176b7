"""Named formats: whether a text is a DNS label, a UUID, a date and so on."""

import re
from base64 import b64decode
from collections.abc import Callable
from datetime import date

from reconciler.cel.errors import CelError
from reconciler.cel.library.times import parse_timestamp
from reconciler.cel.library.urls import parse
from reconciler.cel.types import Library
from reconciler.cel.values import NOTHING, Format, Option

LIBRARY = Library()

Problems = tuple[str, ...]

_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?")
_LABEL_1035 = re.compile(r"[a-z](?:[-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_NAME = re.compile(r"(?:[A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_UUID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
_MAX_SUBDOMAIN, _MAX_LABEL = 253, 63


def _shaped(pattern: re.Pattern[str], longest: int, shape: str) -> Callable[[str], Problems]:
    def problems(text: str) -> Problems:
        found: list[str] = []
        if len(text) > longest:
            found.append(f"must be no more than {longest} characters")
            text = text[:longest]
        if pattern.fullmatch(text) is None:
            found.append(f"must consist of {shape}")
        return tuple(found)

    return problems


def _prefix(problems: Callable[[str], Problems]) -> Callable[[str], Problems]:
    """The check for a prefix, which may end in a dash."""
    return lambda text: problems(text.removesuffix("-") + ("a" if text.endswith("-") else ""))


_label = _shaped(_LABEL, _MAX_LABEL, "lower case letters, digits and '-', no '-' at either end")
_label_1035 = _shaped(_LABEL_1035, _MAX_LABEL, "lower case letters, digits and '-', no '-' last")
_subdomain = _shaped(_SUBDOMAIN, _MAX_SUBDOMAIN, "lower case labels joined by '.'")
_name = _shaped(_NAME, _MAX_LABEL, "letters, digits, '-', '_' and '.', alphanumeric at both ends")


def _qualified_name(text: str) -> Problems:
    prefix, slash, name = text.rpartition("/")
    if "/" in prefix:
        return ("must have at most one '/'",)
    return (_subdomain(prefix) if slash else ()) + _name(name)


def _described(read: Callable[[str], object], kind: str) -> Callable[[str], Problems]:
    def problems(text: str) -> Problems:
        try:
            read(text)
        except (CelError, ValueError):
            return (f"must be {kind}",)
        return ()

    return problems


def _uuid(text: str) -> None:
    if _UUID.fullmatch(text) is None:
        raise ValueError(text)


def _date(text: str) -> None:
    if len(text) != len("2024-01-31"):
        raise ValueError(text)
    date.fromisoformat(text)


_FORMATS = {
    "dns1123Label": _label,
    "dns1123Subdomain": _subdomain,
    "dns1035Label": _label_1035,
    "dns1123LabelPrefix": _prefix(_label),
    "dns1123SubdomainPrefix": _prefix(_subdomain),
    "dns1035LabelPrefix": _prefix(_label_1035),
    "qualifiedName": _qualified_name,
    "labelValue": lambda text: _name(text) if text else (),
    "uri": _described(parse, "a URL"),
    "uuid": _described(_uuid, "a UUID"),
    "byte": _described(lambda text: b64decode(text, validate=True), "base64"),
    "date": _described(_date, "a date such as 2024-01-31"),
    "datetime": _described(parse_timestamp, "a time such as 2024-01-31T12:00:00Z"),
}
_NAMED = {name: Format(name, problems) for name, problems in _FORMATS.items()}


def _declare(name: str) -> None:
    LIBRARY.function(f"format.{name}", " -> Format")(lambda: _NAMED[name])


for _each in _NAMED:
    _declare(_each)


@LIBRARY.function("format.named", "string -> optional(Format)")
def named(name: str) -> Option:
    """The format of that name, if there is one."""
    found = _NAMED.get(name)
    return NOTHING if found is None else Option(True, found)


@LIBRARY.member("validate", "Format, string -> optional(list(string))", cost=lambda _, text: len(text) // 10)
def validate(form: Format, text: str) -> Option:
    """The errors of the text; none if it is valid."""
    problems = form.problems(text)
    return Option(True, problems) if problems else NOTHING
