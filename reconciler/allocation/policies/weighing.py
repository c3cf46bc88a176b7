"""How much the preferences of pods count beside a placement policy. Source: PREF-6."""

from enum import StrEnum


class Weighing(StrEnum):
    """When the preferences of pods order nodes."""

    FIRST = "first"
    """Before the policy, which chooses among the nodes with the most points"""
    LAST = "last"
    """After the policy: they choose among the nodes that it finds equal"""
    OFF = "off"


WEIGHINGS = tuple(one.value for one in Weighing)
"""All names"""
