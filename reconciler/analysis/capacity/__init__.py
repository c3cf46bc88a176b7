"""Capacity analysis: how many devices still fit, which free capacity is stranded, and the fragmentation.

Computed from columns. No I/O, no clock, no logging. docs/capacity.md defines the terms.
"""

from reconciler.analysis.capacity.layout import FleetLayout, fleet_layout, tainted_devices
from reconciler.analysis.capacity.lines import By, CounterUsage, Line, ProfileUsage, lines
from reconciler.analysis.capacity.measure import Measurement, measure
from reconciler.analysis.capacity.solver import Solver

__all__ = [
    "By",
    "CounterUsage",
    "FleetLayout",
    "Line",
    "Measurement",
    "ProfileUsage",
    "Solver",
    "fleet_layout",
    "lines",
    "measure",
    "tainted_devices",
]
