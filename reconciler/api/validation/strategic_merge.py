"""Strategic merge patch: lists of named entries are merged by name instead of being replaced.

A schema maps a field to Merge or to the schema of a plain object. Other fields merge as in a JSON merge
patch.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from reconciler.api.validation.status import bad_request

Schema = Mapping[str, Any]


class Merge(Struct, frozen=True):
    """A list that is merged by the value of `key`, or as a set of plain values if `key` is empty."""

    key: str = ""
    of: Schema = field(default_factory=dict)
    """The schema of the elements."""


METADATA: Schema = {"ownerReferences": Merge("uid"), "finalizers": Merge()}
CONDITIONS = Merge("type")


def strategic_merge(target: Any, patch: Any, schema: Schema) -> Any:
    """`target` with the patch applied; neither is modified."""
    if not isinstance(patch, dict):
        return patch
    directive = patch.get("$patch")
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != "$patch"}
    if directive == "delete":
        return {}
    result = dict(target) if isinstance(target, dict) else {}
    if isinstance(keep := patch.get("$retainKeys"), list):
        result = {key: value for key, value in result.items() if key in keep}
    for key, value in patch.items():
        if key.startswith("$"):
            _directive(result, key, value)
        elif value is None:
            result.pop(key, None)
        else:
            rule = schema.get(key, {})
            order = patch.get(f"$setElementOrder/{key}")
            result[key] = (
                _merge_list(result.get(key), value, rule, order)
                if isinstance(rule, Merge) and isinstance(value, list)
                else strategic_merge(result.get(key), value, {} if isinstance(rule, Merge) else rule)
            )
    return result


def _directive(result: dict[str, Any], key: str, value: Any) -> None:
    name, _, of = key.partition("/")
    if name == "$deleteFromPrimitiveList":
        if not isinstance(value, list):
            raise bad_request(f"{key} must be a list")
        if isinstance(result.get(of), list):
            result[of] = [item for item in result[of] if item not in value]
    elif name not in ("$patch", "$retainKeys", "$setElementOrder"):
        raise bad_request(f"unknown directive {key} in a strategic merge patch")


def _merge_list(current: Any, patch: list[Any], rule: Merge, order: Any) -> list[Any]:
    before = current if isinstance(current, list) else []
    if not rule.key:
        merged = before + [item for item in patch if item not in before]
        return _ordered(merged, order, lambda item: item)
    if {"$patch": "replace"} in patch:
        return [item for item in patch if item != {"$patch": "replace"}]
    merged = list(before)
    for item in patch:
        if not isinstance(item, dict) or rule.key not in item:
            raise bad_request(f"map: {item!r} does not contain declared merge key: {rule.key}")
        at = next((i for i, old in enumerate(merged) if _key(old, rule) == item[rule.key]), None)
        if item.get("$patch") == "delete":
            if at is not None:
                del merged[at]
        elif at is None:
            merged.append(strategic_merge({}, item, rule.of))
        else:
            merged[at] = strategic_merge(merged[at], item, rule.of)
    wanted = [_key(item, rule) for item in order] if isinstance(order, list) else None
    return _ordered(merged, wanted, lambda item: _key(item, rule))


def _key(item: Any, rule: Merge) -> Any:
    return item.get(rule.key) if isinstance(item, dict) else None


def _ordered(items: list[Any], order: Any, key: Any) -> list[Any]:
    """The items in the given order; items that it does not name follow in their old order."""
    if not isinstance(order, list):
        return items
    place = {repr(value): i for i, value in enumerate(order)}
    return sorted(items, key=lambda item: place.get(repr(key(item)), len(place)))
