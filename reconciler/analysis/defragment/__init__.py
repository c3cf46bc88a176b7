"""Defragmentation: moves of pods after which more fits. No I/O, no clock. docs/defragment.md."""

from reconciler.analysis.defragment.answer import Answer, Move, Picture, ProfileChange, Step
from reconciler.analysis.defragment.defragmenting import defragment
from reconciler.analysis.defragment.planner import Limit
from reconciler.analysis.defragment.target import NODE, Target, for_each_kind

__all__ = [
    "NODE",
    "Answer",
    "Limit",
    "Move",
    "Picture",
    "ProfileChange",
    "Step",
    "Target",
    "defragment",
    "for_each_kind",
]
