"""How many pods of some sets would fit together now, on which nodes, and what is short.

For those who admit work before its pods exist. Nothing is written. No I/O, no clock, no logging.
"""

from reconciler.analysis.fitting.answer import Fit, Seat, SetFit, Short
from reconciler.analysis.fitting.fitting import fit
from reconciler.analysis.fitting.question import FitQuestion, PodSet

__all__ = ["Fit", "FitQuestion", "PodSet", "Seat", "SetFit", "Short", "fit"]
