"""Read an object field by field and collect its errors.

A value of the wrong JSON type raises WrongType at once, as decoding does on a real server.
A value that breaks a rule adds a cause, and validation continues.
"""

import json
from collections.abc import Collection
from typing import Any, NamedTuple


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
        value = None
        if self.value is not None:
            value = self._typed(dict).get(key)
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
