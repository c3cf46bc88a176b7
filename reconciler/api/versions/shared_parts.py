"""Typed objects of many slices: equal parts are one object, as in slices that a watch delivers.

Drivers publish the same products, capacities and draws again and again. The columns of a large fleet are made
in a fraction of the time where these are the same objects.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from pydantic_core import to_json

from reconciler.api.objects.meta import ApiObject
from reconciler.api.versions import reading
from reconciler.api.versions.slice_text import read_slice


def read(raw: Mapping[str, Any]) -> ApiObject:
    """As `reading.read`. Raises Malformed naming kind, name, field and reason."""
    return typed(reading.to_v1(raw))


def typed(raw: Mapping[str, Any]) -> ApiObject:
    """As `reading.typed`, for a result of `reading.to_v1`."""
    if raw["kind"] == "ResourceSlice":
        with suppress(ValueError, RecursionError):  # what has no JSON is invalid, and told below
            found = read_slice(to_json(raw, inf_nan_mode="constants"), raw["apiVersion"], listed=True)
            if found is not None:
                return found
    return reading.typed(raw)
