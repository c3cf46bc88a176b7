"""How many examples a property is tried on: few on each change, many times more by `make soak`."""

import os

from hypothesis import HealthCheck, settings

FACTOR = int(os.environ.get("EXAMPLES", "1"))
"""How many times more examples than on each change"""


def examples(count: int) -> settings:
    """Deadlines are off: the first look at a selector compiles it."""
    return settings(
        max_examples=count * FACTOR, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True
    )
