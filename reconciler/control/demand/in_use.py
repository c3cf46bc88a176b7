"""The placement policies that decisions use now. Their demand may change while the process runs."""

from collections.abc import Callable

from msgspec.structs import replace

from reconciler.allocation.policies.demand import Demand
from reconciler.allocation.policies.selection import PLAIN, Policies


class PoliciesInUse:
    """Call it for the present policies. A question keeps those with which it was asked."""

    def __init__(
        self, policies: Policies = PLAIN, record: Callable[[Policies], None] = lambda _: None
    ) -> None:
        """`record` gets the policies now and whenever they change."""
        self._current, self._record = policies, record
        record(policies)

    def __call__(self) -> Policies:
        return self._current

    def learn(self, demand: Demand) -> None:
        """Keep room for another demand from the next question on."""
        self._current = replace(self._current, demand=demand)
        self._record(self._current)
