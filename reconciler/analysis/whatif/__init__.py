"""What would be, if there were other claims, fewer claims, fewer nodes or more devices.

Decided by what decides in earnest, on a picture of its own. Nothing is written. No I/O, no clock, no logging.
"""

from reconciler.analysis.whatif.answer import Answer, Limit, Lost, Placed, Refused
from reconciler.analysis.whatif.answering import MOST, answer
from reconciler.analysis.whatif.question import Base, Question, Unit

__all__ = ["MOST", "Answer", "Base", "Limit", "Lost", "Placed", "Question", "Refused", "Unit", "answer"]
