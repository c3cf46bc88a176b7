"""Files, directories and standard input."""

import io
from pathlib import Path

import pytest

from reconciler.api.manifests import documents
from reconciler.api.manifests.documents import texts
from reconciler.errors import Malformed


def read(*paths: object, stdin: bytes = b"") -> list[tuple[str, str]]:
    return [(name, str(text)) for name, text in texts([str(path) for path in paths], io.BytesIO(stdin))]


def test_a_directory_stands_for_the_manifests_below_it_in_order(tmp_path: Path):
    for name in ("b.yml", "a.yaml", "sub/c.json", "notes.txt", "sub/.d.yaml", "z.yaml.bak"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    names = [text for _, text in read(tmp_path)]
    assert names == ["a.yaml", "b.yml", "sub/.d.yaml", "sub/c.json"]


def test_a_file_is_read_whatever_its_name(tmp_path: Path):
    (tmp_path / "notes.txt").write_text("x")
    assert read(tmp_path / "notes.txt") == [(str(tmp_path / "notes.txt"), "x")]


def test_a_dash_is_standard_input():
    assert read("-", stdin="kind: Ü".encode()) == [("<stdin>", "kind: Ü")]


def test_a_byte_order_mark_is_no_text(tmp_path: Path):
    (tmp_path / "f.yaml").write_bytes(b"\xef\xbb\xbfkind: A")
    assert read(tmp_path / "f.yaml")[0][1] == "kind: A"


def test_what_is_not_utf_8_is_refused_with_its_line(tmp_path: Path):
    path = tmp_path / "f.yaml"
    path.write_bytes(b"a: 1\nb: \xff\n")
    assert read(path) == [(str(path), f"{path}:2: is not UTF-8 text: byte 0xff")]


def test_a_file_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(documents, "MAX_BYTES", 2**20)
    path = tmp_path / "f.yaml"
    path.write_bytes(b"#" * (2**20 + 1))
    assert read(path) == [(str(path), f"{path}: is larger than 1 MiB")]
    path.write_bytes(b"#" * 2**20)
    assert len(read(path)[0][1]) == 2**20


def test_a_file_that_is_gone_refuses_only_itself(tmp_path: Path):
    (tmp_path / "b.yaml").write_text("x")
    found = list(texts([str(tmp_path / "a.yaml"), str(tmp_path / "b.yaml")], io.BytesIO()))
    assert isinstance(found[0][1], Malformed)
    assert "No such file" in str(found[0][1])
    assert found[1][1] == "x"


def test_a_dangling_link_in_a_directory_is_left_out(tmp_path: Path):
    (tmp_path / "a.yaml").symlink_to(tmp_path / "nowhere")
    assert read(tmp_path) == []
