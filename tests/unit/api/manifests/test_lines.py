"""Where fields stand, compared with what YAML's own composer says of every node."""

import json
import sys
from types import FrameType
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from reconciler.api.manifests.documents import Document, Origin, lines_of, of_text

NAMES = st.text("abc/-", min_size=1, max_size=3)
VALUES = st.recursive(
    st.integers() | st.text("ab \n'\"#", max_size=6) | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=12,
)
OBJECTS = st.dictionaries(NAMES, VALUES, min_size=1, max_size=4)
TOP = Origin("a.yaml")


def nodes(node: yaml.Node, path: str = "") -> dict[str, int]:
    """Every path of a document and the line, from one, of its key or list element."""
    found: dict[str, int] = {}
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            step = f"{path}[{key.value}]" if path else key.value
            found |= {**nodes(value, step), step: key.start_mark.line + 1}
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            step = f"{path}[{index}]"
            found |= {**nodes(value, step), step: value.start_mark.line + 1}
    return found


def written(how: str, value: Any) -> str:
    return json.dumps(value, indent=1) if how == "json" else yaml.safe_dump(value, default_flow_style=None)


@pytest.mark.parametrize("how", ["json", "yaml"])
@given(value=OBJECTS)
def test_every_field_is_found_where_it_is(how: str, value: dict[str, Any]):
    text = written(how, value)
    top = yaml.compose(text, Loader=yaml.SafeLoader)
    assert top is not None
    places = nodes(top)
    found = lines_of(text, [(TOP, path) for path in places])
    assert {path: found[TOP, path] for path in places} == places


TEXT = """\
# a list, and an object after it
kind: List
items:
- metadata:
    name: a
- spec:
    devices:
    - name: one
      attributes: {a.b/c: {string: x}}
---
spec: {x: *none}
"""


@pytest.mark.parametrize(
    ("origin", "field", "line"),
    [
        pytest.param(TOP.at(1), "spec.devices[0].attributes[a.b/c].string", 9, id="an item of a list"),
        pytest.param(TOP.at(1), "spec.devices[0].capacity[memory]", 8, id="what should hold it"),
        pytest.param(TOP.at(0), "metadata.name", 5, id="the first item"),
        pytest.param(Origin("a.yaml", 11), "spec.x", 11, id="a later document"),
        pytest.param(Origin("a.yaml", 11), "status.allocation", 11, id="nothing of it is there"),
    ],
)
def test_places(origin: Origin, field: str, line: int):
    assert lines_of(TEXT, [(origin, field)]) == {(origin, field): line}


def test_a_text_that_breaks_off_is_known_up_to_there():
    assert lines_of("a: 1\nb: {c: 2,\nd: [\n", [(TOP, "b.c"), (TOP, "e")]) == {(TOP, "b.c"): 2, (TOP, "e"): 1}


MANY = "".join(f"---\nmetadata:\n  name: c{number}\nspec: {{}}\n" for number in range(50))


def test_each_document_of_many_is_read_once():
    """The text that the parser gets grows with the file, not with its square."""
    read: list[int] = []

    def count(frame: FrameType, event: str, _argument: Any) -> None:
        if event == "call" and frame.f_code.co_name == "_walk":
            read.append(len(frame.f_locals["text"]))

    fields = [(Origin("a.yaml", 2 + 4 * number), "metadata.name") for number in range(50)]
    sys.setprofile(count)
    try:
        found = lines_of(MANY, fields)
    finally:
        sys.setprofile(None)
    assert [found[field] for field in fields] == [3 + 4 * number for number in range(50)]
    assert len(MANY) <= sum(read) < 2 * len(MANY)


def test_objects_of_json_may_meet_in_a_line():
    text = '{"kind": "A",\n"spec": {"x": 1}} {"kind": "A",\n"spec":\n{"x": 2}}\n'
    origins = [one.origin for one in of_text("a.json", text) if isinstance(one, Document)]
    assert [origin.line for origin in origins] == [1, 2]
    assert lines_of(text, [(origin, "spec.x") for origin in origins])[origins[0], "spec.x"] == 2
