"""Converts an answer to JSON, for programs such as cluster autoscalers. The field names are stable."""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from reconciler.analysis.attempt import NoFit
from reconciler.analysis.sizing.answer import Group, ItemAnswer, Option, Sizing
from reconciler.analysis.sizing.shapes import Shape


def as_json(result: Sizing, shapes: Mapping[str, Shape]) -> dict[str, Any]:
    """The whole answer. `shapes` are by name."""
    best = result.options[0].nodes if result.options else {}
    return {
        "fitsNow": result.fits_now,
        "answered": result.answered,
        "addNodes": best,
        "items": [_item(one) for one in result.items],
        "options": [_option(one, result) for one in result.options],
        "shapes": [
            {
                "name": name,
                "instanceType": shape.instance_type or None,
                "cost": _number(shape.cost),
                "devices": shape.devices,
            }
            for name, shape in shapes.items()
        ],
    }


def _item(one: ItemAnswer) -> dict[str, Any]:
    return {
        "name": one.item.name,
        "count": one.item.count,
        "fitNow": one.placed,
        "left": one.left,
        "refused": _refusal(one.refused) if one.refused is not None else None,
        "shapes": list(one.served_by),
        "refusedByShapes": {name: _refusal(why) for name, why in one.refused_by.items()},
    }


def _refusal(why: NoFit) -> dict[str, str]:
    return {"reason": str(why.reason), "message": why.message}


def _option(option: Option, result: Sizing) -> dict[str, Any]:
    return {
        "nodes": option.nodes,
        "total": sum(option.nodes.values()),
        "cost": _number(option.cost),
        "costAtLeast": _number(option.at_least),
        "optimal": option.optimal,
        "groups": [_group(group, result) for group in option.groups],
    }


def _group(group: Group, result: Sizing) -> dict[str, Any]:
    held = {one.item.name: count for one, count in zip(result.items, group.holds, strict=True) if count}
    return {"shape": group.shape, "nodes": group.nodes, "eachHolds": held}


def _number(value: Fraction) -> float | int:
    return int(value) if value.denominator == 1 else float(value)
