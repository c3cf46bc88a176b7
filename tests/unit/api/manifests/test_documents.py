"""Texts are cut into documents, lists into objects; one that is broken does not hide the others."""

import io
import json
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from reconciler.api.manifests import documents
from reconciler.api.manifests.documents import (
    Document,
    InvalidDocument,
    Origin,
    lines_of,
    of_text,
    split,
    texts,
)
from reconciler.errors import Malformed


def read(text: str, name: str = "f.yaml") -> list[str]:
    """Every document as `place kind`, every refusal as its line."""
    return [
        f"{found.origin} {found.raw['kind']}" if isinstance(found, Document) else str(found.problem)
        for found in of_text(name, text)
    ]


def test_documents_are_found_with_the_line_on_which_they_begin():
    text = "# licence\n\nkind: A\n---\n# note\nkind: B\n---\n---\nkind: C\n"
    assert read(text) == ["f.yaml:3 A", "f.yaml:6 B", "f.yaml:9 C"]


@pytest.mark.parametrize(
    "text", ["", "\n\n", "# only a comment\n", "---\n", "---\n---\n...\n", "\ufeff".strip("\ufeff")]
)
def test_an_empty_text_has_no_documents(text: str):
    assert read(text) == []


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_windows_line_ends_are_read_alike(newline: str):
    text = newline.join(["kind: A", "---", "kind: B", ""])
    assert read(text) == ["f.yaml:1 A", "f.yaml:3 B"]


def test_a_broken_document_refuses_only_itself():
    text = "kind: A\n---\nkind: B\n  bad: [\n---\nkind: C\n"
    first, broken, last = read(text)
    assert first == "f.yaml:1 A"
    assert broken.startswith("f.yaml:4:6: mapping values are not allowed")
    assert last == "f.yaml:6 C"


def test_a_marker_inside_a_text_block_needs_the_start_of_a_line():
    text = "kind: A\ntext: |\n  ---\n  not: a document\n  ----\n---\nkind: B\n"
    assert read(text) == ["f.yaml:1 A", "f.yaml:7 B"]


def test_a_line_that_only_begins_with_dashes_is_no_marker():
    assert read("kind: A\n---x: 1\n") == ["f.yaml:1 A"]


def test_a_document_may_begin_on_the_line_of_its_marker():
    assert read("--- {kind: A}\n--- # note\nkind: B\n") == ["f.yaml:1 A", "f.yaml:3 B"]


def test_directives_and_end_markers_go_with_their_documents():
    text = "%YAML 1.1\n# note\n---\nkind: A\n...\n%YAML 1.1\n---\nkind: B\n...\n"
    assert [place.split()[-1] for place in read(text)] == ["A", "B"]


def test_lists_are_unwrapped_and_say_which_item():
    text = "kind: List\nitems:\n- {kind: A}\n- {kind: List, items: [{kind: B}, {kind: C}]}\n"
    found = read(text)
    assert found == ["f.yaml:1 items[0] A", "f.yaml:1 items[1].items[0] B", "f.yaml:1 items[1].items[1] C"]


def test_items_of_a_typed_list_get_what_the_list_says_of_them():
    text = "apiVersion: v1\nkind: PodList\nitems:\n- metadata: {name: a}\n- {kind: Pod, apiVersion: v2}\n"
    first, second = of_text("f", text)
    assert isinstance(first, Document)
    assert isinstance(second, Document)
    assert first.raw == {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}
    assert second.raw == {"apiVersion": "v2", "kind": "Pod"}


def test_a_kind_that_only_ends_in_list_is_an_object():
    assert read("kind: AllowList\nspec: {}\n") == ["f.yaml:1 AllowList"]


@pytest.mark.parametrize("items", ["", "items: []", "items:"])
def test_an_empty_list_has_no_objects(items: str):
    assert read(f"kind: List\n{items}\n") == []


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("- a\n- b", "f.yaml:1: document: is a list, not an object"),
        ("just text", "f.yaml:1: document: is a string, not an object"),
        ("5", "f.yaml:1: document: is a number, not an object"),
        ("true", "f.yaml:1: document: is a boolean, not an object"),
        ("a: 1", "f.yaml:1: document: kind: is missing"),
        ("kind: ''", "f.yaml:1: document: kind: is missing"),
        ("kind: 5", "f.yaml:1: document: kind: must be a string"),
        ("kind: [A]", "f.yaml:1: document: kind: must be a string"),
        ("kind: List\nitems: 5", "f.yaml:1: List: items: must be a list"),
        ("kind: List\nitems: [5]", "f.yaml:1 items[0]: document: is a number, not an object"),
        ("kind: List\nitems: [~]", "f.yaml:1 items[0]: document: is null, not an object"),
    ],
)
def test_what_is_no_object_is_refused_at_its_place(text: str, line: str):
    assert read(text) == [line]


def test_json_is_read_object_after_object():
    text = '\n{"kind": "A"}\n{"kind": "List", "items": [{"kind": "B"}]}\n'
    assert read(text, "f.json") == ["f.json:2 A", "f.json:3 items[0] B"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('{"kind": "A",\n "x": }', "f.json:2:7: Expecting value (JSON)"),
        ('{"kind": "A", "kind": "B"}', "f.json:1:1: the key 'kind' occurs twice in one object"),
        ('{"kind": NaN}', "f.json:1:1: NaN is not JSON"),
        ('{"a":' + "[" * 50_000, "f.json:1:1: nested too deeply (JSON)"),
        ('{"a":' + "[" * 150 + "]" * 150 + "}", "f.json:1:1: nested deeper than 100 levels"),
    ],
)
def test_malformed_json_is_refused_at_its_place(text: str, line: str):
    assert read(text, "f.json") == [line]


def test_yaml_that_begins_like_json_is_read_as_yaml():
    assert read("{kind: A}\n---\n{kind: B}\n") == ["f.yaml:1 A", "f.yaml:3 B"]


pieces = st.lists(
    st.sampled_from(
        [
            "---",
            "...",
            "a: 1",
            "# x",
            "",
            "  b: 2",
            "%YAML 1.1",
            "--- c",
            "x: |",
            "---\r",
            "---x",
            "....",
            "\t#",
        ]
    ),
    max_size=12,
)


def cut_by_lines(text: str) -> list[tuple[int, str]]:
    """The slow twin of `split`: it looks at each line."""
    found, part, start = list[tuple[int, str]](), list[str](), 0
    for number, line in enumerate(text.split("\n")):
        marker = line[:3] if line[:3] in ("---", "...") and line[3:4] in ("", " ", "\t", "\r") else ""
        if marker == "---" and any(one.strip(" \t\r") and one.lstrip(" \t")[:1] not in "#%" for one in part):
            found.append((start, "\n".join(part) + "\n"))
            part, start = [], number
        part.append(line)
        if marker == "...":
            found.append((start, "\n".join(part) + "\n"))
            part, start = [], number + 1
    return [*found, (start, "\n".join(part))]


@given(pieces)
def test_documents_are_cut_where_a_look_at_each_line_cuts_them(lines: list[str]):
    text = "\n".join(lines)
    assert list(split(text)) == cut_by_lines(text)


@given(pieces)
def test_cutting_loses_no_line_and_keeps_their_order(lines: list[str]):
    parts = list(split("\n".join(lines)))
    joined = "".join(text for _, text in parts)
    assert joined.split("\n") == lines or joined.rstrip("\n").split("\n") == "\n".join(lines).rstrip(
        "\n"
    ).split("\n")
    for start, text in parts:
        if text.strip():
            assert text.split("\n")[0] == lines[start]


@given(pieces)
def test_any_arrangement_of_markers_is_read_or_refused(lines: list[str]):
    for found in of_text("f.yaml", "\n".join(lines)):
        assert isinstance(found, InvalidDocument)  # nothing here has a kind


def read_paths(*paths: object, stdin: bytes = b"") -> list[tuple[str, str]]:
    return [(name, str(text)) for name, text in texts([str(path) for path in paths], io.BytesIO(stdin))]


def test_a_directory_stands_for_the_manifests_below_it_in_order(tmp_path: Path):
    for name in ("b.yml", "a.yaml", "sub/c.json", "notes.txt", "sub/.d.yaml", "z.yaml.bak"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    names = [text for _, text in read_paths(tmp_path)]
    assert names == ["a.yaml", "b.yml", "sub/.d.yaml", "sub/c.json"]


def test_a_file_is_read_whatever_its_name(tmp_path: Path):
    (tmp_path / "notes.txt").write_text("x")
    assert read_paths(tmp_path / "notes.txt") == [(str(tmp_path / "notes.txt"), "x")]


def test_a_dash_is_standard_input():
    assert read_paths("-", stdin="kind: Ü".encode()) == [("<stdin>", "kind: Ü")]


def test_a_byte_order_mark_is_no_text(tmp_path: Path):
    (tmp_path / "f.yaml").write_bytes(b"\xef\xbb\xbfkind: A")
    assert read_paths(tmp_path / "f.yaml")[0][1] == "kind: A"


def test_what_is_not_utf_8_is_refused_with_its_line(tmp_path: Path):
    path = tmp_path / "f.yaml"
    path.write_bytes(b"a: 1\nb: \xff\n")
    assert read_paths(path) == [(str(path), f"{path}:2: is not UTF-8 text: byte 0xff")]


def test_a_file_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(documents, "MAX_BYTES", 2**20)
    path = tmp_path / "f.yaml"
    path.write_bytes(b"#" * (2**20 + 1))
    assert read_paths(path) == [(str(path), f"{path}: is larger than 1 MiB")]
    path.write_bytes(b"#" * 2**20)
    assert len(read_paths(path)[0][1]) == 2**20


def test_a_file_that_is_gone_refuses_only_itself(tmp_path: Path):
    (tmp_path / "b.yaml").write_text("x")
    found = list(texts([str(tmp_path / "a.yaml"), str(tmp_path / "b.yaml")], io.BytesIO()))
    assert isinstance(found[0][1], Malformed)
    assert "No such file" in str(found[0][1])
    assert found[1][1] == "x"


def test_a_dangling_link_in_a_directory_is_left_out(tmp_path: Path):
    (tmp_path / "a.yaml").symlink_to(tmp_path / "nowhere")
    assert read_paths(tmp_path) == []


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
