"""The kinds of gates between a request and a device. The gates are in analysis/explain/gates.py."""

from enum import StrEnum


class Kind(StrEnum):
    """What a gate tests. The first ten test single devices."""

    CLASS = "class"
    SELECTOR = "selector"
    FEATURE = "feature"
    POOL = "pool"
    TAINTS = "taints"
    HELD = "held"
    CAPACITY = "capacity"
    COUNTERS = "counters"
    GROUPS = "groups"
    NODES = "nodes"

    # These test several devices at once.
    ENOUGH = "enough"
    CONSTRAINT = "constraint"
    TOGETHER = "together"
    ALIGNMENT = "alignment"
    PARTITION = "partition"
