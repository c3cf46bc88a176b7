"""Read an object field by field and collect its errors; syntax of names, amounts, times (V-1 to V-10).

A value of the wrong JSON type raises WrongType at once, as decoding does on a real server. A value that
breaks a rule adds a cause, and validation continues.
"""

import json
import re
from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple

from reconciler.api.objects.quantity import Quantity


class Cause(NamedTuple):
    """A violated rule, as listed in a Status."""

    reason: str
    message: str
    field: str


class WrongType(ValueError):
    """A field has another JSON type than declared."""


def _json_type(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number"
    names: dict[type, str] = {str: "string", list: "array", dict: "object"}
    return names.get(type(value), "null")


class Field:
    """A field of an object: its value, its path, and the list of causes."""

    __slots__ = ("causes", "path", "value")

    def __init__(self, value: Any, path: str = "", causes: list[Cause] | None = None) -> None:
        self.value = value
        self.path = path
        self.causes: list[Cause] = [] if causes is None else causes

    def __getitem__(self, key: str) -> "Field":
        value = self.value
        if value is not None:
            value = (value if type(value) is dict else self._typed(dict)).get(key)
        return Field(value, f"{self.path}.{key}" if self.path else key, self.causes)

    def _typed(self, expected: type) -> Any:
        # bool is an int in Python, but not in JSON.
        if not isinstance(self.value, expected) or (expected is int and isinstance(self.value, bool)):
            wanted = {dict: "an object", list: "an array", str: "a string", int: "an integer", bool: "a bool"}
            raise WrongType(f"{self.path}: expected {wanted[expected]}, got {_json_type(self.value)}")
        return self.value

    @property
    def present(self) -> bool:
        """Whether the field is set and not null."""
        return self.value is not None

    def object(self) -> dict[str, Any]:
        """The value as an object; empty if absent."""
        return {} if self.value is None else self._typed(dict)

    def items(self) -> list["Field"]:
        """The elements of a list."""
        if self.value is None:
            return []
        return [Field(v, f"{self.path}[{i}]", self.causes) for i, v in enumerate(self._typed(list))]

    def entries(self) -> list[tuple[str, "Field"]]:
        """The keys and values of a map."""
        return [(k, Field(v, f"{self.path}[{k}]", self.causes)) for k, v in self.object().items()]

    def text(self) -> str:
        """The value as a string; empty if absent."""
        return "" if self.value is None else self._typed(str)

    def integer(self) -> int:
        """The value as an integer; 0 if absent."""
        return 0 if self.value is None else self._typed(int)

    def flag(self) -> bool:
        """The value as a bool; False if absent."""
        return False if self.value is None else self._typed(bool)

    def note(self, reason: str, message: str) -> None:
        """Add a cause for this field."""
        self.causes.append(Cause(reason, message, self.path))

    def required(self, why: str = "") -> None:
        """Add a cause: the field must be set."""
        self.note("FieldValueRequired", f"Required value: {why}" if why else "Required value")

    def invalid(self, why: str) -> None:
        """Add a cause: the value violates a rule."""
        shown = json.dumps(self.value)
        if len(shown) > 256:
            shown = shown[:256] + "..."
        self.note("FieldValueInvalid", f"Invalid value: {shown}: {why}")

    def value_invalid(self, why: str) -> None:
        """Add a cause: the object violates a rule between its fields. The object is not printed."""
        self.note("FieldValueInvalid", f'Invalid value: "": {why}')

    def forbidden(self, why: str) -> None:
        """Add a cause: the value is not allowed here."""
        self.note("FieldValueForbidden", f"Forbidden: {why}")

    def duplicate(self) -> None:
        """Add a cause: another entry has the same value."""
        self.note("FieldValueDuplicate", f"Duplicate value: {json.dumps(self.value)}")

    def unsupported(self, allowed: Collection[str]) -> None:
        """Add a cause: the value is not one of the allowed words."""
        words = ", ".join(json.dumps(word) for word in sorted(allowed))
        self.note(
            "FieldValueNotSupported",
            f"Unsupported value: {json.dumps(self.value)}: supported values: {words}",
        )

    def too_long(self, limit: int) -> None:
        """Add a cause: the value has more bytes than allowed."""
        self.note("FieldValueTooLong", f"Too long: may not be more than {limit} bytes")

    def at_most(self, limit: int) -> None:
        """Add a cause if a list or map has more than `limit` entries."""
        count = len(self.value) if isinstance(self.value, list | dict) else 0
        if count > limit:
            self.note("FieldValueTooMany", f"Too many: {count}: must have at most {limit} items")

    def needed(self) -> bool:
        """Add a cause if the text is empty. Returns whether it is set."""
        if not self.text():
            self.required()
        return self.text() != ""

    def not_negative(self) -> None:
        """Add a cause if the number is below zero."""
        if self.integer() < 0:
            self.invalid("must be greater than or equal to 0")

    def one_of(self, allowed: Collection[str]) -> None:
        """Add a cause if the value is not one of the allowed words."""
        if self.text() not in allowed:
            self.unsupported(allowed)

    def unique(self, seen: set[Any], key: Any = None) -> None:
        """Add a cause if the value is in `seen`, else add it to `seen`. Lists and objects are ignored."""
        marker = self.value if key is None else key
        if isinstance(marker, list | dict):
            return
        if marker in seen:
            self.duplicate()
        seen.add(marker)


_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
MAX_LABEL = 63
MAX_SUBDOMAIN = 253
MAX_IDENTIFIER = 32
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LABEL_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")


def is_dns_label(text: str) -> bool:
    """V-1."""
    return len(text) <= MAX_LABEL and _LABEL.fullmatch(text) is not None


def is_dns_subdomain(text: str) -> bool:
    """V-1."""
    return len(text) <= MAX_SUBDOMAIN and _SUBDOMAIN.fullmatch(text) is not None


def is_key(text: str) -> bool:
    """Whether the name of an attribute or capacity is valid after its domain (V-4)."""
    name = text.rpartition("/")[2]
    return len(name) <= MAX_IDENTIFIER and _IDENTIFIER.fullmatch(name) is not None


def is_label_name(text: str) -> bool:
    """The key of a label: an optional DNS subdomain and a slash, then a short name."""
    domain, slash, name = text.rpartition("/")
    return (is_dns_subdomain(domain) if slash else True) and is_label_value(name) and name != ""


def is_label_value(text: str) -> bool:
    """The value of a label; may be empty."""
    return text == "" or (len(text) <= 63 and _LABEL_NAME.fullmatch(text) is not None)


def dns_label(field: Field) -> None:
    """A mandatory DNS label."""
    if field.needed() and not is_dns_label(field.text()):
        field.invalid(
            "must be a DNS label: at most 63 lower case letters, digits and '-', with no '-' at either end"
        )


def dns_subdomain(field: Field) -> None:
    """A mandatory DNS subdomain."""
    if field.needed() and not is_dns_subdomain(field.text()):
        field.invalid("must be a DNS subdomain: DNS labels joined by dots, at most 253 characters")


def size_of(text: str) -> int:
    """Bytes of a text, which may have surrogates without a partner."""
    return len(text.encode("utf-8", "surrogatepass"))


def named(entries: Field, most: int | None = None) -> Iterator[Field]:
    """The entries of a list, which has at most so many. Their names are DNS labels and differ."""
    if most is not None:
        entries.at_most(most)
    seen: set[str] = set()
    for entry in entries.items():
        dns_label(entry["name"])
        entry["name"].unique(seen)
        yield entry


def labelled(entries: Field) -> Iterator[Field]:
    """The values of a map whose keys are DNS labels."""
    for name, value in entries.entries():
        dns_label(Field(name, value.path, value.causes))
        yield value


def driver_name(field: Field) -> None:
    """V-2: checked in lower case, stored as written."""
    text = field.text()
    if not text:
        field.required()
    elif size_of(text) > 63:
        field.too_long(63)
    elif not is_dns_subdomain(text.lower()):
        field.invalid("must be a DNS subdomain")


def pool_name(field: Field) -> None:
    """V-3."""
    text = field.text()
    if not text:
        field.required()
    elif size_of(text) > 253:
        field.too_long(253)
    elif not all(is_dns_subdomain(part) for part in text.split("/")):
        field.invalid("must be DNS subdomains joined by slashes")


def qualified_name(field: Field, text: str) -> None:
    """V-4: the key of an attribute or a capacity; causes are added to `field`."""
    domain, slash, name = text.rpartition("/")
    if slash and not (size_of(domain) <= 63 and is_dns_subdomain(domain.lower())):
        field.invalid("the domain must be a DNS subdomain of at most 63 bytes")
    if size_of(name) > 32:
        field.too_long(32)
    elif not _IDENTIFIER.fullmatch(name):
        field.invalid("the name must be a C identifier")


def fully_qualified_name(field: Field) -> None:
    """V-5."""
    if "/" not in field.text():
        field.invalid("must include a domain")
    else:
        qualified_name(field, field.text())


def label_name(field: Field) -> None:
    """The mandatory key of a label or taint."""
    if field.needed() and not is_label_name(field.text()):
        field.invalid("must be a label name: an optional DNS subdomain and '/', then at most 63 characters")


def label_value(field: Field) -> None:
    """The value of a label or taint."""
    if not is_label_value(field.text()):
        field.invalid("must be a label value: at most 63 letters, digits, '-', '_' and '.'")


def quantity(field: Field) -> Quantity | None:
    """The quantity at a field; None if absent."""
    if field.value is None:
        return None
    try:
        return Quantity.parse(_text(field.value))
    except (ValueError, TypeError) as exc:
        raise WrongType(f"{field.path}: {exc}") from exc


def canonical(value: Any) -> Any:
    """The amount as the API prints it. An invalid amount is unchanged: validation reports it."""
    if isinstance(value, str):
        return _canonical(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _canonical(_text(value))
    return value


def canonical_values(amounts: Any) -> None:
    """Convert every value of a map of quantities in place."""
    if isinstance(amounts, dict):
        for key, value in amounts.items():
            amounts[key] = canonical(value)


@lru_cache(maxsize=65536)
def _canonical(text: str) -> str:
    try:
        return str(Quantity.parse(text))
    except ValueError:
        return text


def _text(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise TypeError("a quantity is a string or a number")
    return value.strip() if isinstance(value, str) else repr(value)


_TIMESTAMP = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)", re.ASCII)


_MICROS = re.compile(r"\.\d{6}(?!\d)", re.ASCII)


def timestamp(moment: datetime) -> str:
    """`moment` in RFC 3339."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_timestamp(text: str) -> datetime:
    """Parse a time in RFC 3339, no other form of ISO 8601: to the microsecond, in UTC. Raises ValueError."""
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        raise ValueError("not a time in RFC 3339")
    fraction = (match[2] or "")[:6].ljust(6, "0")
    zone = "+00:00" if match[3] == "Z" else match[3]
    try:
        return datetime.fromisoformat(f"{match[1]}.{fraction}{zone}").astimezone(UTC)
    except OverflowError as exc:
        raise ValueError("before the year 1 or after the year 9999") from exc


def time(field: Field) -> None:
    """A time in RFC 3339, which decoders read. Raises WrongType."""
    if field.present:
        _decoded(field, field.text())


def time_in_micros(field: Field) -> None:
    """A time with exactly six digits after the seconds. Raises WrongType."""
    if field.present:
        text = field.text()
        _decoded(field, text if _MICROS.search(text) else "")


def _decoded(field: Field, text: str) -> None:
    try:
        parse_timestamp(text)
    except ValueError as exc:
        wanted = "2024-01-31T12:00:00.000000Z" if text != field.text() else "2024-01-31T12:00:00Z"
        shown = json.dumps(field.text()[:64])
        raise WrongType(f"{field.path}: cannot read {shown} as a time; write it like {wanted}") from exc


def age(since: str, now: datetime) -> str:
    """The age in the short form of kubectl tables."""
    if not since:
        return "<unknown>"
    seconds = max(int((now - parse_timestamp(since)).total_seconds()), 0)
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10:
        return f"{minutes}m{seconds % 60}s" if seconds % 60 else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    if hours < 192:
        return f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"
    return f"{days}d"
