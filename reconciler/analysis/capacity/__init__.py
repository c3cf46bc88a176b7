"""How full a fleet is: what still fits, what is stranded, and how much of what is free is of use.

Worked out from columns. No I/O, no clock, no logging. docs/capacity.md says what the words mean.
"""

from reconciler.analysis.capacity.layout import Ground, lay_ground
from reconciler.analysis.capacity.lines import By, Fits, Left, Line, lines
from reconciler.analysis.capacity.measure import Measured, measure
from reconciler.analysis.capacity.states import Solver

__all__ = ["By", "Fits", "Ground", "Left", "Line", "Measured", "Solver", "lay_ground", "lines", "measure"]
