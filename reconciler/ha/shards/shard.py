"""A shard: drivers, pools, or both. Leases ensure that the shards of two processes never overlap."""

import re
from collections.abc import Iterable
from hashlib import sha256

from msgspec import Struct

from reconciler.api.objects.meta import PoolID
from reconciler.errors import Rejected

_NAME = re.compile(r"[a-z0-9][-a-z0-9./]*")
DRIVER, PREFIX = "driver", "pool-prefix"
LEASE = "dra-reconciler"
"""Name of the Lease for the whole fleet, and prefix of those for shards"""


class Shard(Struct, frozen=True):
    """Pools, selected by drivers and by prefixes of pool names. An empty set means all."""

    drivers: frozenset[str] = frozenset()
    prefixes: frozenset[str] = frozenset()

    @property
    def whole(self) -> bool:
        """Whether it is the whole fleet."""
        return not (self.drivers or self.prefixes)

    @property
    def lease(self) -> str:
        """The name of its Lease, which depends on the definition but not on its spelling."""
        return LEASE if self.whole else f"{LEASE}-{sha256(str(self).encode()).hexdigest()[:10]}"

    def owns(self, pool: PoolID) -> bool:
        """Whether it contains a pool."""
        return (not self.drivers or pool.driver in self.drivers) and (
            not self.prefixes or pool.pool.startswith(tuple(self.prefixes))
        )

    def overlaps(self, other: "Shard") -> bool:
        """Whether a pool may belong to both."""
        drivers = not self.drivers or not other.drivers or bool(self.drivers & other.drivers)
        return drivers and (
            not self.prefixes
            or not other.prefixes
            or any(a.startswith(b) or b.startswith(a) for a in self.prefixes for b in other.prefixes)
        )

    def __str__(self) -> str:
        """As in settings and Leases: `driver=a,pool-prefix=b`. Empty for the whole fleet."""
        parts = [f"{DRIVER}={name}" for name in sorted(self.drivers)]
        return ",".join(parts + [f"{PREFIX}={name}" for name in sorted(self.prefixes)])


WHOLE = Shard()


def parse(text: str) -> Shard:
    """The shard that a text defines. Raises Rejected."""
    found: dict[str, set[str]] = {DRIVER: set(), PREFIX: set()}
    for part in filter(None, (part.strip() for part in text.split(","))):
        key, _, value = part.partition("=")
        if key not in found or not _NAME.fullmatch(value):
            raise Rejected(
                f"shard {text!r}: {part!r} is neither {DRIVER}=NAME nor {PREFIX}=TEXT; "
                "give several separated by commas"
            )
        found[key].add(value)
    return Shard(frozenset(found[DRIVER]), frozenset(_shortest(found[PREFIX])))


def _shortest(prefixes: Iterable[str]) -> list[str]:
    """The prefixes that no other one covers."""
    kept: list[str] = []
    for prefix in sorted(prefixes):
        if not kept or not prefix.startswith(kept[-1]):
            kept.append(prefix)
    return kept
