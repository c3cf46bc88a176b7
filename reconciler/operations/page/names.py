"""Names as they may be shown. Templates escape; here is what escaping does not help against."""

import unicodedata
from hashlib import sha256

LONGEST = 96
"""Characters of a name that are shown"""
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Categories of characters that cannot be seen, or turn the text around them"""


def shown(name: str, longest: int = LONGEST) -> str:
    """A name without what would hide or turn its neighbours, and shortened in its middle: heads and tails of
    names in clusters tell more.
    """
    if len(name) > longest:
        head = (longest - 1) // 2
        name = f"{name[:head]}…{name[head + 1 - longest :]}"
    if name.isascii() and name.isprintable():
        return name
    return "".join("�" if unicodedata.category(char) in _HIDDEN else char for char in name)


def anchor(*parts: object) -> str:
    """An id for an element, always the same for the same parts, whatever is in them."""
    return f"x{sha256(repr(parts).encode(errors='surrogatepass')).hexdigest()[:16]}"
