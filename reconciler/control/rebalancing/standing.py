"""The latest advice for each goal, for people."""

from reconciler.control.rebalancing.advice import Advice


class StandingAdvice:
    """Changed by the rebalancer alone."""

    def __init__(self) -> None:
        self.lines: tuple[Advice, ...] = ()
        """One for each goal, in their order; empty before the first plan"""
        self.without_budgets = False
        """Whether budgets could not be considered"""

    def note(self, found: tuple[Advice, ...]) -> list[Advice]:
        """Keep advice. Returns what of it has moves that were not known before."""
        before = set(self.lines)
        self.lines = found
        return [one for one in found if one.moves and one not in before]

    def forget(self) -> None:
        """Keep nothing: somebody else leads."""
        self.lines = ()

    def gains(self) -> dict[str, float]:
        """Goal -> how much the advised moves gain."""
        return {one.goal: float(one.after - one.before) for one in self.lines}

    def moves(self) -> dict[str, float]:
        """Goal -> how many pods would be moved."""
        return {one.goal: float(len(one.moves)) for one in self.lines}
