"""Lark's cache of the parser is used where nobody else can write it, and nowhere else."""

import os
from pathlib import Path

import pytest

from reconciler.cel import grammar, reading

SELECTOR = 'device.driver == "d" && !(1 in [1, 2,]) || {"a": r"\\"}.?a.orValue(b"") ? x.y(z)[0] : null'


def parsed() -> str:
    return repr(grammar.built_parser(reading._Builder()).parse(SELECTOR))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "dra-reconciler"


def test_the_cache_is_made_and_used(home: Path):
    first = parsed()
    kept = (home / "cel-parser").stat()
    assert (kept.st_mode & 0o777) == 0o644
    assert parsed() == first
    assert (home / "cel-parser").stat().st_mtime_ns == kept.st_mtime_ns


@pytest.mark.parametrize("content", [b"", b"[", b"another\n"])
def test_a_file_that_does_not_fit_is_replaced(home: Path, content: bytes):
    home.mkdir()
    (home / "cel-parser").write_bytes(content)
    assert parsed() == repr(reading.read(SELECTOR))
    assert len((home / "cel-parser").read_bytes()) > 1000


@pytest.mark.parametrize("place", ["", "cel-parser"])
def test_what_others_can_write_is_not_used(home: Path, place: str):
    parsed()
    (home / "cel-parser").write_bytes(b"bad")
    (home / place).chmod(0o777)
    assert grammar._cache_file() is None
    assert parsed() == repr(reading.read(SELECTOR))
    assert (home / "cel-parser").read_bytes() == b"bad"


def test_what_another_user_owns_is_not_used(home: Path, monkeypatch: pytest.MonkeyPatch):
    home.mkdir()
    assert grammar._cache_file() == home / "cel-parser"
    if os.getuid() == 0:
        os.chown(home, 12345, -1)
    else:
        monkeypatch.setattr(os, "getuid", lambda: 12345)
    assert grammar._cache_file() is None


def test_a_link_is_not_followed(home: Path, tmp_path: Path):
    home.mkdir()
    (tmp_path / "elsewhere").write_bytes(b"")
    (home / "cel-parser").symlink_to(tmp_path / "elsewhere")
    assert grammar._cache_file() is None


def test_without_a_folder_the_parser_is_built(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")
    assert grammar._cache_file() is None
    assert parsed() == repr(reading.read(SELECTOR))
