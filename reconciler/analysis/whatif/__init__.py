"""What-if analysis: would claims fit, with fewer claims, fewer nodes or more devices.

The allocator itself decides, on a separate store. Nothing is written. No I/O, no clock, no logging.
"""

from reconciler.analysis.whatif.answer import Answer, Limit, Lost, Placed, PlacedGang, Refused
from reconciler.analysis.whatif.answering import MAX_COPIES, answer
from reconciler.analysis.whatif.scenario import Baseline, Gang, Scenario, Unit

__all__ = [
    "MAX_COPIES",
    "Answer",
    "Baseline",
    "Gang",
    "Limit",
    "Lost",
    "Placed",
    "PlacedGang",
    "Refused",
    "Scenario",
    "Unit",
    "answer",
]
