"""Semantic versions: semver 2.0.0, with the precedence that CEL uses.

The grammar and the precedence rules come from the `semver` package; this adds what Kubernetes adds:
64-bit components, a length limit, and a lenient reading (CEL-16).
"""

import re
from dataclasses import dataclass, field
from functools import lru_cache, total_ordering
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from semver import Version

MAX_LENGTH = 256
_UINT64_MAX = 2**64 - 1
_SHORT = re.compile(r"v?([0-9]+)(?:\.([0-9]+))?(?:\.([0-9]+))?((?:[-+].*)?)", re.ASCII)


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Semver:
    """A version. `==` and `<` compare precedence, which ignores build metadata (CEL-10)."""

    text: str
    """As written: constraints compare this, build metadata included (CON-5)."""
    parsed: "Version" = field(repr=False)

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
        return self.parsed.major

    @property
    def minor(self) -> int:
        return self.parsed.minor

    @property
    def patch(self) -> int:
        return self.parsed.patch

    def compare(self, other: "Semver") -> int:
        """-1, 0 or 1 by precedence."""
        return self.parsed.compare(other.parsed)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Semver) and self.compare(other) == 0

    def __lt__(self, other: "Semver") -> bool:
        return self.compare(other) < 0

    def __hash__(self) -> int:
        return hash((self.major, self.minor, self.patch, self.parsed.prerelease))

    def __str__(self) -> str:
        return self.text


@lru_cache(maxsize=16384)
def _parse(text: str) -> Semver:
    if len(text) > MAX_LENGTH:
        raise ValueError(f"a version has {len(text)} characters; at most {MAX_LENGTH} are allowed")
    if not text.isascii():
        raise ValueError(f"{text!r} is not a semantic version (semver 2.0.0)")
    from semver import Version  # noqa: PLC0415 - takes 8 ms, and most fleets have no versions

    try:
        parsed = Version.parse(text)
    except ValueError as exc:
        raise ValueError(f"{text!r} is not a semantic version such as 1.2.3 (semver 2.0.0)") from exc
    numeric = [parsed.major, parsed.minor, parsed.patch]
    numeric += [int(part) for part in (parsed.prerelease or "").split(".") if part.isdigit()]
    if max(numeric) > _UINT64_MAX:
        raise ValueError(f"{text!r}: a component exceeds 64 bits")
    return Semver(text, parsed)
