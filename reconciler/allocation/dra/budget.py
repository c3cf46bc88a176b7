"""How long a decision may go on, told by whoever waits for it. Counted, never timed."""

from reconciler.errors import ReconcilerError


class Unfinished(ReconcilerError):
    """A decision was broken off. Nothing is known about its answer."""


class Pace:
    """A decision at leisure, bounded by its steps alone."""

    hurried = False
    """Whether to break off rather than run selectors that may take long"""

    def beat(self) -> None:
        """Called before every node and every device tried. Raises Unfinished to break off."""


class Glance(Pace):
    """A decision that is broken off where it turns out to be long. One that ends is as good as any other."""

    hurried = True

    def __init__(self, beats: int) -> None:
        """`beats` nodes and devices may be tried."""
        self._left = beats

    def beat(self) -> None:
        """See `Pace.beat`."""
        self._left -= 1
        if self._left < 0:
            raise Unfinished("the search is long")


class Unseen(Unfinished):
    """Selectors would have to be run on the whole fleet that were never run, or were slow before."""


LEISURE = Pace()
