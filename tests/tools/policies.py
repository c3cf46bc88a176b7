"""Policies for tests, with the claims of a world as their demand."""

from collections.abc import Callable

from reconciler.allocation.policies.by_device import BEST_FIT, SPREAD
from reconciler.allocation.policies.demand import Demand, Shape
from reconciler.allocation.policies.expected_fill import ExpectedFill
from reconciler.allocation.policies.fragmentation import Fgd
from reconciler.allocation.policies.least_loss import LeastLoss
from reconciler.allocation.policies.policy import Policy
from reconciler.api.objects.plan import Granted
from tests.tools.allocation_world import World

POLICIES = ("best-fit", "spread", "least-loss", "least-loss without demand", "fgd", "expected-fill")


def with_demand(name: str, world: World) -> Policy:
    """A policy by name; its demand are the claims of the world, the last one most frequent."""
    demand = Demand(tuple(Shape(one.spec, 0, at + 1) for at, one in enumerate(world.wanted())))
    policies: dict[str, Callable[[], Policy]] = {
        "best-fit": lambda: BEST_FIT,
        "spread": lambda: SPREAD,
        "least-loss": lambda: LeastLoss(demand, guarded=True),
        "least-loss without demand": LeastLoss,
        "fgd": lambda: Fgd(demand),
        "expected-fill": lambda: ExpectedFill(demand),
    }
    return policies[name]()


def rank_of(granted: Granted, world: World) -> int:
    """The sum of the positions of the chosen alternatives in their lists."""
    total = 0
    for plan, claim in zip(granted.plans, world.wanted(), strict=True):
        chosen = {result.request for result in plan.allocation.devices.results}
        for request in claim.spec.devices.requests:
            names = [f"{request.name}/{one.name}" for one in request.first_available or ()]
            total += next((at for at, name in enumerate(names) if name in chosen), 0)
    return total
