"""What a plain YAML scalar means to Kubernetes: a string, a whole number, a fraction, a boolean or null.

YAML 1.1 knows more: `47:00.0` is a number in base 60 and `2024-01-01` a date. A PCI address or a time stamp
must not turn into either, so those readings do not exist here.
"""

import re
from collections.abc import Callable
from typing import Any, ClassVar

import yaml

TAG = "tag:yaml.org,2002:"
MERGE = f"{TAG}merge"

# libyaml where PyYAML was built with it: about ten times faster, the same events.
_Base: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Loader(_Base):  # type: ignore[misc, valid-type]
    """Turns text into events and names the tag of a plain scalar. It does not build anything."""

    yaml_implicit_resolvers: ClassVar[dict[str, list[tuple[str, re.Pattern[str]]]]] = {}


def _resolve(name: str, pattern: str, first: list[str]) -> None:
    """Read scalars that match as `name`; `first` holds the characters they can begin with, "" for none."""
    Loader.add_implicit_resolver(TAG + name, re.compile(pattern), first)


_resolve("bool", r"^(?:yes|Yes|YES|no|No|NO|on|On|ON|off|Off|OFF)$", list("yYnNoO"))
_resolve("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", list("tTfF"))
_resolve("int", r"^[-+]?(?:0b[01_]+|0[0-7_]+|0|[1-9][0-9_]*|0x[0-9a-fA-F_]+)$", list("-+0123456789"))
_resolve(
    "float", r"^[-+]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+]?[0-9]+)?$", list("-+.0123456789")
)
_resolve("null", r"^(?:~|null|Null|NULL|)$", ["~", "n", "N", ""])
_resolve("merge", r"^<<$", ["<"])


def _int(text: str) -> int:
    digits = text.replace("_", "")
    sign, digits = (-1, digits[1:]) if digits[0] == "-" else (1, digits.removeprefix("+"))
    if digits[:2] in ("0b", "0x"):
        return sign * int(digits, 0)
    octal = len(digits) > 1 and digits[0] == "0"
    return sign * int(digits, 8 if octal else 10)


def _float(text: str) -> float:
    return float(text.replace("_", ""))


def _bool(text: str) -> bool:
    return text.lower() in ("yes", "true", "on")


def _null(_text: str) -> None:
    return None


VALUE_OF: dict[str, Callable[[str], Any]] = {
    TAG + "str": str,
    TAG + "int": _int,
    TAG + "float": _float,
    TAG + "bool": _bool,
    TAG + "null": _null,
    MERGE: str,
}
"""Tag -> the value of a scalar's text. A merge key that is no key is text. May raise ValueError: Python
refuses numbers of 5000 digits."""
