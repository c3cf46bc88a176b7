"""How often Python collects circular garbage: seldom, since the process holds many long-lived objects."""

import atexit
import gc

COLLECTIONS = (10_000, 20, 100)
"""Arguments of `gc.set_threshold`: new objects before a collection of the youngest generation, which takes a
millisecond; such collections before one of the middle generation; and those before a full collection."""

STARTING = (500_000, 20, 100)
"""The same for a process that starts: nearly all that it makes are modules, classes and what it reads"""


def spare_the_start() -> None:
    """Collect seldom from now on, and not at the end of the process.

    Half of the time of a short command would go into looking for garbage among its modules, and a last time
    among all there is before the process ends.
    """
    gc.set_threshold(*STARTING)
    atexit.register(gc.freeze)
