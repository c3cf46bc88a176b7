"""Sizing: how many nodes of which shapes a demand needs. No I/O, no clock, no logging. docs/fleet-size.md."""

from reconciler.analysis.sizing.answer import Group, ItemAnswer, Option, Sizing
from reconciler.analysis.sizing.demand import Item, items_of
from reconciler.analysis.sizing.shapes import Shape, distinct_shapes, shape_of
from reconciler.analysis.sizing.sizing import size

__all__ = [
    "Group",
    "Item",
    "ItemAnswer",
    "Option",
    "Shape",
    "Sizing",
    "distinct_shapes",
    "items_of",
    "shape_of",
    "size",
]
