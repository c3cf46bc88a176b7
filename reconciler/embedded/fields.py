"""Reading an object field by field while collecting what is wrong with it.

A value of the wrong JSON type raises WrongType at once, as decoding would on a real server;
a value that breaks a rule is noted, and reading goes on.
"""

import json
from collections.abc import Collection
from typing import Any, NamedTuple


class Cause(NamedTuple):
    """One broken rule, as listed in a Status."""

    reason: str
    message: str
    field: str


class WrongType(ValueError):
    """A field holds another JSON type than its declaration says."""


def _json_type(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number"
    names: dict[type, str] = {str: "string", list: "array", dict: "object"}
    return names.get(type(value), "null")


class Field:
    """A place in an object: what is there, the path to it, and the list that collects causes."""

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
        # bool is an int to Python, never to JSON.
        if not isinstance(self.value, expected) or (expected is int and isinstance(self.value, bool)):
            wanted = {dict: "an object", list: "an array", str: "a string", int: "an integer", bool: "a bool"}
            raise WrongType(f"{self.path}: expected {wanted[expected]}, got {_json_type(self.value)}")
        return self.value

    @property
    def present(self) -> bool:
        """Whether anything but null is there."""
        return self.value is not None

    def object(self) -> dict[str, Any]:
        """The object here; empty where there is none."""
        return {} if self.value is None else self._typed(dict)

    def items(self) -> list["Field"]:
        """The elements of the list here."""
        if self.value is None:
            return []
        return [Field(v, f"{self.path}[{i}]", self.causes) for i, v in enumerate(self._typed(list))]

    def entries(self) -> list[tuple[str, "Field"]]:
        """Keys and values of the map here."""
        return [(k, Field(v, f"{self.path}[{k}]", self.causes)) for k, v in self.object().items()]

    def text(self) -> str:
        """The string here; empty where there is none."""
        return "" if self.value is None else self._typed(str)

    def integer(self) -> int:
        """The whole number here; 0 where there is none."""
        return 0 if self.value is None else self._typed(int)

    def flag(self) -> bool:
        """The bool here; False where there is none."""
        return False if self.value is None else self._typed(bool)

    def note(self, reason: str, message: str) -> None:
        """Collect a cause at this place."""
        self.causes.append(Cause(reason, message, self.path))

    def required(self, why: str = "") -> None:
        """Something must be here."""
        self.note("FieldValueRequired", f"Required value: {why}" if why else "Required value")

    def invalid(self, why: str) -> None:
        """What is here breaks a rule."""
        shown = json.dumps(self.value)
        if len(shown) > 256:
            shown = shown[:256] + "..."
        self.note("FieldValueInvalid", f"Invalid value: {shown}: {why}")

    def value_invalid(self, why: str) -> None:
        """A rule between the fields of the object here is broken; the object itself is not shown."""
        self.note("FieldValueInvalid", f'Invalid value: "": {why}')

    def forbidden(self, why: str) -> None:
        """Nothing may be here."""
        self.note("FieldValueForbidden", f"Forbidden: {why}")

    def duplicate(self) -> None:
        """Another entry already has this value."""
        self.note("FieldValueDuplicate", f"Duplicate value: {json.dumps(self.value)}")

    def unsupported(self, allowed: Collection[str]) -> None:
        """What is here is not one of the allowed words."""
        words = ", ".join(json.dumps(word) for word in sorted(allowed))
        self.note(
            "FieldValueNotSupported",
            f"Unsupported value: {json.dumps(self.value)}: supported values: {words}",
        )

    def too_long(self, limit: int) -> None:
        """More bytes than allowed."""
        self.note("FieldValueTooLong", f"Too long: may not be more than {limit} bytes")

    def at_most(self, limit: int) -> None:
        """Note a list or map of more than `limit` entries."""
        count = len(self.value) if isinstance(self.value, list | dict) else 0
        if count > limit:
            self.note("FieldValueTooMany", f"Too many: {count}: must have at most {limit} items")

    def one_of(self, allowed: Collection[str]) -> None:
        """Note a word that is not among those allowed."""
        if self.text() not in allowed:
            self.unsupported(allowed)

    def unique(self, seen: set[Any], key: Any = None) -> None:
        """Note a value met before; remember it otherwise. A list or an object is no name: others say so."""
        marker = self.value if key is None else key
        if isinstance(marker, list | dict):
            return
        if marker in seen:
            self.duplicate()
        seen.add(marker)
