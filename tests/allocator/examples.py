"""How many examples a property of the allocator is tried on."""

import os

from hypothesis import HealthCheck, settings

FACTOR = int(os.environ.get("ALLOCATOR_EXAMPLES", "1"))
"""How many times more examples than usual; 50 makes a thorough run of some minutes."""


def examples(count: int) -> settings:
    """Deadlines are off: the first look at a selector compiles it."""
    return settings(
        max_examples=count * FACTOR, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True
    )
