"""Semantic versions: semver 2.0.0, with the precedence that CEL uses.

Kubernetes adds 64-bit components, a length limit, and a lenient reading (CEL-16).
"""

import re
from dataclasses import dataclass, field
from functools import lru_cache, total_ordering

MAX_LENGTH = 256
_UINT64_MAX = 2**64 - 1
_NUMBER = "(0|[1-9][0-9]*)"
_PRERELEASE = r"(?:0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*)"
STRICT = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-({_PRERELEASE}(?:\.{_PRERELEASE})*))?(?:\+[0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*)?"
)
"""As semver.org suggests"""
_SHORT = re.compile(r"v?([0-9]+)(?:\.([0-9]+))?(?:\.([0-9]+))?((?:[-+].*)?)", re.ASCII)


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Semver:
    """A version. `==` and `<` compare precedence, which ignores build metadata (CEL-10)."""

    text: str
    """As written: constraints compare this, build metadata included (CON-5)."""
    precedence: tuple[int, int, int, bool, tuple[tuple[bool, int, str], ...]] = field(repr=False)
    """Major, minor, patch; a release is above its pre-releases, whose numbers are below their words"""

    @classmethod
    def parse(cls, text: str) -> "Semver":
        """Read a strict semver 2.0.0. Raises ValueError with the reason."""
        return _parse(text)

    @classmethod
    def parse_leniently(cls, text: str) -> "Semver":
        """Read a version that may start with `v`, have leading zeros or lack parts (CEL-16)."""
        match = _SHORT.fullmatch(text) if len(text) <= MAX_LENGTH else None
        if match is None:
            raise ValueError(f"{text[:MAX_LENGTH]!r} is not a version")
        major, minor, patch, rest = match.groups()
        if rest and patch is None:
            raise ValueError(f"{text!r}: a short version cannot carry a pre-release or build part")
        numbers = ".".join(part.lstrip("0") or "0" for part in (major, minor or "0", patch or "0"))
        return _parse(numbers + rest)

    @property
    def major(self) -> int:
        return self.precedence[0]

    @property
    def minor(self) -> int:
        return self.precedence[1]

    @property
    def patch(self) -> int:
        return self.precedence[2]

    def compare(self, other: "Semver") -> int:
        """-1, 0 or 1 by precedence."""
        return (self.precedence > other.precedence) - (self.precedence < other.precedence)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Semver) and self.precedence == other.precedence

    def __lt__(self, other: "Semver") -> bool:
        return self.precedence < other.precedence

    def __hash__(self) -> int:
        return hash(self.precedence)

    def __str__(self) -> str:
        return self.text


@lru_cache(maxsize=16384)
def _parse(text: str) -> Semver:
    if len(text) > MAX_LENGTH:
        raise ValueError(f"a version has {len(text)} characters; at most {MAX_LENGTH} are allowed")
    match = STRICT.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a semantic version such as 1.2.3 (semver 2.0.0)")
    major, minor, patch = map(int, match.groups()[:3])
    parts = match[4].split(".") if match[4] else []
    before = tuple((False, int(part), "") if part.isdigit() else (True, 0, part) for part in parts)
    if max(major, minor, patch, *(number for _, number, _ in before)) > _UINT64_MAX:
        raise ValueError(f"{text!r}: a component exceeds 64 bits")
    return Semver(text, (major, minor, patch, not parts, before))
