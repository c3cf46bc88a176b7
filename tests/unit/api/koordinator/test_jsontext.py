"""Where a value of the wrong shape is said to be."""

import json
from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from reconciler.api.objects.json_annotations import start_of

LEAVES = st.none() | st.booleans() | st.integers() | st.text()
VALUES = st.recursive(
    LEAVES,
    lambda some: st.lists(some, max_size=4) | st.dictionaries(st.text(), some, max_size=4),
    max_leaves=12,
)
WRONG = "the odd one out"


def paths(value: Any) -> Iterator[tuple[int | str, ...]]:
    """Of every value in a value."""
    yield ()
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inside:
        yield from ((key, *path) for path in paths(one))


def put(value: Any, path: tuple[int | str, ...]) -> Any:
    """The same, but for one value."""
    if not path:
        return WRONG
    copy = value.copy()
    copy[path[0]] = put(value[path[0]], path[1:])
    return copy


@given(VALUES, st.data(), st.sampled_from([None, 1, "\t"]), st.sampled_from([(",", ":"), (" ,\n", " : ")]))
def test_a_value_is_found_by_its_path_however_it_is_written(
    value: Any, data: st.DataObject, indent: Any, separators: tuple[str, str]
):
    path = data.draw(st.sampled_from(list(paths(value))))
    text = json.dumps(put(value, path), indent=indent, separators=separators)
    assert json.JSONDecoder().raw_decode(text, start_of(path, text))[0] == WRONG
