"""The settings of the reconcilers that are simulated."""

from tests.tools.simulation import fleet
from tests.tools.simulation.evictions import URGENT
from tests.tools.simulation.replicas import MOST_MOVED
from tests.tools.tuned import changed, tuned

SETTINGS = tuned(
    own_drivers=fleet.OURS,
    write_seconds=1.0,
    writers=8,
    backoff_cap_seconds=60.0,
    events=False,
    rebalance="off",
)
PAIR = changed(SETTINGS, leader_elect=True, lease_seconds=3.0, retry_seconds=0.5)
"""Short terms, so that the lead changes often within a schedule. They bound what pairs meet: clocks differ
by 1 % from true time; a write is given up after 1 s, and may arrive up to `faults.LATEST` later; two that
believe they lead do so for as long as a replica is cut off, or its Lease requests alone are lost"""
PREEMPTION = {
    "preemption": "evict",
    "preempting_classes": frozenset({URGENT}),
    "held_room_config_map": "default/held-room",
    "eviction_cooldown_seconds": 0.0,
    "evictions_per_minute": 60,
    "nomination_seconds": 20.0,
}
MOVES = {
    "rebalance": "evict",
    "rebalance_goals": "90%,node=2",
    "rebalance_calm_seconds": 2.0,
    "rebalance_max_priority": MOST_MOVED,
}
