"""The names of the policies and of weighings of preferences. Imports nothing, so help texts can name them."""

from enum import StrEnum

FIRST_FIT = "first-fit"
"""The default: what Kubernetes' own allocator does"""

POLICIES = (FIRST_FIT, "best-fit", "spread", "least-loss", "fgd", "expected-fill")
"""All names, the default first"""


class Weighing(StrEnum):
    """When the preferences of pods order nodes."""

    FIRST = "first"
    """Before the policy, which chooses among the nodes with the most points"""
    LAST = "last"
    """After the policy: they choose among the nodes that it finds equal"""
    OFF = "off"


WEIGHINGS = tuple(one.value for one in Weighing)
"""All names"""
