"""What the allocator that Kubernetes ships does with the same fleets and claims, for comparison.

Measured on a machine of two cores with a calibration of 0.10 to 0.13 s and about 30 GB/s: the Go
allocator alone, first node that fits, one thread; `e2e` is kube-scheduler with a real API server.
"""

from typing import NamedTuple


class Reference(NamedTuple):
    """What was measured for one figure: one number, or the lowest and the highest of several runs."""

    low: float
    high: float

    def factor(self, ours: float, better: str) -> float:
        """How many times better ours is than the better of theirs."""
        return ours / self.high if better == "more" else self.low / ours

    def __str__(self) -> str:
        return f"{self.low:g}" if self.low == self.high else f"{self.low:g} to {self.high:g}"


KUBERNETES: dict[tuple[str, str], Reference] = {
    ("mig-fill", "claims/s, first 200"): Reference(22, 22),
    ("mig-fill", "claims/s, first 400"): Reference(15, 15),
    ("mig-multi", "claims/s"): Reference(21, 21),
    ("infeasible", "a claim"): Reference(0.56, 0.87),
    ("whole-gpu", "claims/s"): Reference(361, 514),
    ("e2e", "claims/s"): Reference(3.2, 3.2),
    ("e2e", "write floor"): Reference(470, 470),
}
"""By workload and figure. The write floor is two writes a claim, 32 in flight, nothing decided."""
