"""Names for display. Templates escape them; this module handles what escaping does not."""

import unicodedata
from hashlib import sha256

LONGEST = 96
"""Maximum length of a displayed name"""
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode categories of invisible characters and of those that change the direction of text"""


def shown(name: str, longest: int = LONGEST) -> str:
    """The name, with � for characters that are invisible or change the direction of text.

    A long name is cut in the middle, because its start and end are more specific.
    """
    if len(name) > longest:
        head = (longest - 1) // 2
        name = f"{name[:head]}…{name[head + 1 - longest :]}"
    if name.isascii() and name.isprintable():
        return name
    return "".join("�" if unicodedata.category(char) in _HIDDEN else char for char in name)


def anchor(*parts: object) -> str:
    """A stable and safe element id for the parts."""
    return f"x{sha256(repr(parts).encode(errors='surrogatepass')).hexdigest()[:16]}"
