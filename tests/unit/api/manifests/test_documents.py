"""Texts are cut into documents, lists into objects; one that is broken does not hide the others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.api.manifests.documents import Document, Refusal, of_text, split


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
    assert read(text) == [
        "f.yaml:1 items[0] A",
        "f.yaml:1 items[1].items[0] B",
        "f.yaml:1 items[1].items[1] C",
    ]


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
        assert isinstance(found, Refusal)  # nothing here has a kind
