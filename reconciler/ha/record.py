"""What a Lease says, and how long it may take until nothing of its holder arrives any more."""

from dataclasses import dataclass

from reconciler.ha.shards.shard import Shard

LONGEST = 600.0
"""Seconds of a lease and of a write, at most. A Lease that says more is not believed: its holder may be gone,
and nobody could lead for as long."""


@dataclass(frozen=True, slots=True)
class Terms:
    """Durations in seconds, by the clock of whoever measures them, and how far apart clocks may be."""

    lease: float = 15.0
    """For how long a renewal holds, from before it was sent"""
    renew: float = 10.0
    """After so long without an answer to a renewal its holder does not lead any more"""
    retry: float = 2.0
    """Between renewals, and between looks of those who would like to lead"""
    write: float = 10.0
    """How long a write may take, and how long after that a request that was given up may still arrive"""
    clock_error: float = 0.01
    """By which part a clock may be too fast or too slow. None stands still."""

    @property
    def skew(self) -> float:
        """What one clock may show while another shows one second."""
        return (1 + self.clock_error) / (1 - self.clock_error)


@dataclass(frozen=True, slots=True)
class Record:
    """A Lease as it was read."""

    name: str
    version: str
    holder: str
    """Empty where it was given up"""
    shard: Shard
    lease: float
    write: float
    """`Terms.lease` and `Terms.write` of its holder"""
    wait: float = 0.0
    """Seconds for which holders before this one, or writes that nobody answered, have to be waited out"""
    transitions: int = 0
    uid: str = ""
    """Tells it from one of the same name and version, as there may be on a server that was set back"""
    doubts: tuple[str, ...] = ()
    """What it says that is not believed, each in a line"""

    @property
    def quiet(self) -> float:
        """Seconds without a change after which nothing of its holder, or of those before, can arrive."""
        return max(self.lease + self.write if self.holder else 0.0, self.wait)
