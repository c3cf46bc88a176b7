"""The composition root: `build` makes the parts by their constructors, `run_parts` runs them.

Nothing is set on a part after it was built. Where two parts need each other, what passes between them is a
part of its own that both are given: decisions reach those who explain them through an `EventInbox`.
"""

from reconciler.app.from_settings import check
from reconciler.app.lifecycle import run

__all__ = ["check", "run"]
