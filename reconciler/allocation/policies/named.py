"""The policies by the names that settings and commands use."""

from collections.abc import Callable, Mapping

from reconciler.allocation.policies.demand import Demand
from reconciler.allocation.policies.expected_fill import ExpectedFill
from reconciler.allocation.policies.fragmentation import Fgd
from reconciler.allocation.policies.guard import guarded
from reconciler.allocation.policies.least_loss import LeastLoss
from reconciler.allocation.policies.names import FIRST_FIT
from reconciler.allocation.policies.policy import Policy
from reconciler.allocation.policies.tightness import BEST_FIT, SPREAD

_MADE: Mapping[str, Callable[[Demand, int], Policy | None]] = {
    FIRST_FIT: lambda _demand, _seed: None,
    BEST_FIT.name: lambda _demand, _seed: BEST_FIT,
    SPREAD.name: lambda _demand, _seed: SPREAD,
    "least-loss": lambda demand, _seed: guarded(LeastLoss(demand)),
    "fgd": lambda demand, _seed: Fgd(demand),
    "expected-fill": ExpectedFill,
}


def policy_named(name: str, demand: Demand, *, seed: int = 0) -> Policy | None:
    """A policy with the demand that it keeps room for; None for first fit. `name` is one of `POLICIES`."""
    return _MADE[name](demand, seed)
