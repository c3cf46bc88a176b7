"""Plain YAML scalars as Kubernetes reads them: string, integer, float, boolean or null.

YAML 1.1 has more types: `47:00.0` is a number in base 60 and `2024-01-01` is a date. They are strings here,
because a PCI address or a timestamp must not change.
"""

import re
from collections.abc import Callable
from typing import Any

TAG = "tag:yaml.org,2002:"
MERGE = f"{TAG}merge"

RESOLVERS: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
"""First character of a scalar ("": empty) -> tags, each with the pattern of its scalars"""


def _resolve(name: str, pattern: str, first: list[str]) -> None:
    """Resolve matching scalars to the tag `name`. `first`: their possible first characters."""
    found = (TAG + name, re.compile(pattern))
    for character in first:
        RESOLVERS.setdefault(character, []).append(found)


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
"""Tag -> function from the text of a scalar to its value. A merge key that is not used as a key is text. May
raise ValueError: Python rejects numbers of 5000 digits."""
