"""Objects as JSON in which something was replaced, added or left out: what a fast reader must not misread."""

import json
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st


@st.composite
def disturbed(draw: st.DrawFn, sources: Sequence[Any], keys: st.SearchStrategy[str]) -> Any:
    """One of the sources, disturbed once or twice. `keys` are the names of added fields."""
    values = st.recursive(
        st.sampled_from([None, True, 0, 1, -1, 1.5, 2**70, "", "x", "1Gi", "1.2.3", "resource.k8s.io/v1"]),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(keys, inner, max_size=2),
        max_leaves=3,
    )
    raw = json.loads(json.dumps(draw(st.sampled_from(sources))))
    for _ in range(draw(st.integers(1, 2))):
        places: list[tuple[Any, Any]] = []
        _collect(raw, places)
        holder, key = draw(st.sampled_from(places))
        match draw(st.sampled_from(["replace", "add", "drop"])):
            case "add" if isinstance(holder, dict):
                holder[draw(keys)] = draw(values)
            case "drop":
                del holder[key]
            case _:
                holder[key] = draw(values)
        if not raw:
            break
    return raw


def _collect(value: Any, places: list[tuple[Any, Any]]) -> None:
    entries = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, below in entries:
        places.append((value, key))
        _collect(below, places)
