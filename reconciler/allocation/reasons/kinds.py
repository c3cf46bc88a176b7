"""The kinds of gates between a request and a device. The gates themselves are in `gates`."""

from enum import StrEnum


class Kind(StrEnum):
    """What a gate asks of a device."""

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

    # Not of one device alone: how many there are, and with which others.
    ENOUGH = "enough"
    CONSTRAINT = "constraint"
    TOGETHER = "together"
    ALIGNMENT = "alignment"
    PARTITION = "partition"
