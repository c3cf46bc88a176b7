"""A decision in the order of a policy and of what the pod prefers. First fit answers where it finds nothing.

So an order never turns a yes into a no, and a better alternative of a request is never given up for a
preferred node or device (SC-1).
"""

from collections.abc import Callable

from msgspec.structs import replace

from kernels.types import Amounts, Mask
from reconciler.allocation.dra.best_set import BestSet
from reconciler.allocation.dra.budget import Budget
from reconciler.allocation.dra.candidates import Candidates
from reconciler.allocation.dra.companions import Companions, Reach
from reconciler.allocation.dra.node_attempt import ChooseSet, Found, NotFound, Only, Ordered, attempt
from reconciler.allocation.dra.node_order import nodes_in_order
from reconciler.allocation.dra.state import Choice, NodeProblem
from reconciler.allocation.policies.policy import Policy, Question
from reconciler.api.objects.plan import Granted
from reconciler.state.devices.snapshot.snapshot import View

MOST_NODES = 8
"""Preferred nodes on which the devices turn out not to fit, until first fit takes over."""


class PreferredSearch:
    """One decision in the order of a policy."""

    def __init__(
        self,
        question: Question,
        policy: Policy | None,
        *,
        steps: int,
        new_share: Callable[[], str],
        budget: Budget,
        only: Only | None,
        companions: Companions | None,
    ) -> None:
        """As `allocate`; each attempt may use all steps. Without a policy, devices have first-fit order."""
        self._question = question
        self._policy = policy
        self._steps = steps
        self._new_share = new_share
        self._budget = budget
        self._only = only
        self._companions = companions
        self.steps = 0
        """Steps of all attempts so far"""

    def run(self, among: Mask, ranks: Amounts | None) -> Granted | None:
        """Devices on the preferred node of those with the best rank; None if first fit has to decide.

        among (N,)  nodes that may fit
        ranks (N,)  the best rank that each could give; None if all give the same

        Raises Unfinished as the budget does.
        """
        best: tuple[int, int, Found] | None = None
        in_order = nodes_in_order(self._question, self._policy, among, ranks)
        for number, (least, place) in enumerate(in_order):
            if best is not None and least >= best[0]:  # equal ranks: the preferred node was earlier
                break
            if (best is None and number == MOST_NODES) or self.steps >= MOST_NODES * self._steps:
                return None
            self._budget.spend()
            outcome = self._on_node(self._question.snapshot.topology.order[place])
            if isinstance(outcome, Found) and (best is None or outcome.rank < best[0]):
                best = outcome.rank, place, outcome
        if best is None:
            return None
        order = self._question.snapshot.topology.order
        return Granted(node=order[best[1]], plans=best[2].plans, steps=self.steps)

    def _on_node(self, node: str) -> Found | NotFound:
        """The devices that the policy prefers, or those of first fit where the order of the policy costs."""
        if self._policy is None:
            return self._attempt(node, None)
        preferred = self._attempt(node, self._ordered, self._choose_set)
        if isinstance(preferred, NotFound):
            # Without an error, and with steps left, the search tried everything: in any order.
            return preferred if preferred.reason is None else self._attempt(node, None)
        if preferred.rank == 0 or len(self._question.parsed.slots) == 1:
            return preferred
        plain = self._attempt(node, None)
        return plain if isinstance(plain, Found) and plain.rank < preferred.rank else preferred

    def _attempt(
        self, node: str, ordered: Ordered | None, choose_set: ChooseSet | None = None
    ) -> Found | NotFound:
        outcome = attempt(
            self._question.parsed,
            node,
            self._question.snapshot,
            steps=self._steps,
            new_share=self._new_share,
            budget=self._budget,
            only=self._only,
            companions=self._companions,
            ordered=ordered,
            choose_set=choose_set,
        )
        self.steps += outcome.steps
        return outcome

    def _choose_set(
        self, problem: NodeProblem, found: tuple[Choice, ...], reach: Reach | None
    ) -> tuple[tuple[Choice, ...], int]:
        judge = self._policy.sets(self._question, problem.view) if self._policy is not None else None
        if judge is None:
            return found, 0
        choice = BestSet(problem, self._question.parsed.slots, judge, reach, self._budget)
        return choice.better_than(found), choice.steps

    def _ordered(self, by_slot: list[list[Candidates]], view: View) -> list[list[Candidates]]:
        """Candidates in the order of the policy. A node with errors has them in first-fit order only."""
        if any(one.static.fails for of_slot in by_slot for one in of_slot):
            return by_slot
        return [[self._order(one, view) for one in of_slot] for of_slot in by_slot]

    def _order(self, candidates: Candidates, view: View) -> Candidates:
        if candidates.listed is not None or self._policy is None:
            return candidates
        order = self._policy.devices(self._question, candidates, view)
        return candidates if order is None else replace(candidates, order=order)
