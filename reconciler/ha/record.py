"""The content of a Lease, and when writes of its holder can no longer arrive."""

from msgspec import Struct

from reconciler.ha.shards.shard import Shard

LONGEST = 600.0
"""Maximum seconds of a lease and of a write. Longer values are ignored: if the holder is gone, no process
could lead for as long."""


class Terms(Struct, frozen=True):
    """Durations in seconds, by the clock of the process that measures them, and the error of clocks."""

    lease: float = 15.0
    """How long a renewal is valid, counted from before it was sent"""
    renew: float = 10.0
    """Time without a successful renewal after which the holder stops leading"""
    retry: float = 2.0
    """Time between renewals, and between reads of candidates"""
    write: float = 10.0
    """Timeout of a write, and how long after it the request may still arrive"""
    clock_error: float = 0.01
    """Fraction by which a clock may be too fast or too slow"""

    @property
    def skew(self) -> float:
        """Maximum seconds on one clock during one second on another."""
        return (1 + self.clock_error) / (1 - self.clock_error)


class Record(Struct, frozen=True):
    """A Lease as it was read."""

    name: str
    version: str
    holder: str
    """Empty if it was released"""
    shard: Shard
    lease: float
    write: float
    """`Terms.lease` and `Terms.write` of its holder"""
    wait: float = 0.0
    """Seconds to wait for earlier holders, or for unanswered writes"""
    transitions: int = 0
    uid: str = ""
    """Distinguishes Leases with the same name and version, after the server was restored from a backup"""
    doubts: tuple[str, ...] = ()
    """Its invalid values, one line each"""

    @property
    def quiet(self) -> float:
        """Seconds without a change after which no write of its holder or of earlier ones can arrive."""
        return max(self.lease + self.write if self.holder else 0.0, self.wait)
