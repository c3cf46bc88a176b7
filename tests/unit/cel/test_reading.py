"""Reading selectors: messages of refusals, values of literals, and the cache of the parser."""

import os
import re
from pathlib import Path

import pytest

from reconciler.cel import grammar, reading
from reconciler.cel.program import CelRefused, compile_selector
from reconciler.cel.reading import read
from reconciler.cel.tree import Literal
from reconciler.cel.values import UInt, Value
from reconciler.errors import Inconsistent


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("device.nope == 1", "1:8: undefined field nope, at 'nope == 1'; DRADevice has driver, attributes,"),
        ('device.driver == "x" &&\n  nope', "2:3: undeclared name nope, at 'nope'; use one of: device"),
        ("device.driver ==", "1:17: syntax error: it ends too early, at 'end of expression'"),
        ("device.driver == 80g", "1:20: syntax error: unexpected 'g', at 'g'"),
        ('device.driver == "x', "1:18: syntax error: unterminated string"),
        ("device.driver.matches('(')", "1:23: '(' is not a regular expression: missing ): ("),
        (
            'device.capacity["x"].y > quantity("1")',
            "1:24: no overload of _>_ takes (kubernetes.Quantity, kubernetes.Quantity), at '> quantity",
        ),
        (
            "device.driver",
            "1:8: the result is string, but must be bool or dyn, at 'driver'; compare it with a value",
        ),
        ("[1, 'a'].size() == 2", "1:5: mixed types: string among int, at"),
        ("while == 1", "1:1: while is a reserved word, at 'while == 1'; use another name"),
        (f"'{'x' * 20_000}' == ''", "1:1: the expression has 20008 characters, at"),
    ],
)
def test_a_refusal_says_where_what_and_what_to_do(expression: str, message: str):
    with pytest.raises(CelRefused, match=re.escape(message)) as caught:
        compile_selector(expression)
    assert ";" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("-0x10", -16),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("0xFFu", UInt(255)),
        (".5", 0.5),
        ("1e3", 1000.0),
        (r'"\x41\u00e9\U0001F600\101\n\"\'\`\?"', "Aé😀A\n\"'`?"),
        (r"r'\d'", r"\d"),
        ("'''a\n'b'\"'''", "a\n'b'\""),
        ('"""a\r\nb"""', "a\nb"),
        (r'R"""\q"""', r"\q"),
        (r'b"é\xff\101"', b"\xc3\xa9\xffA"),
        (r"br'\x'", rb"\x"),
        ("null", None),
        ("true", True),
    ],
)
def test_literals(text: str, value: Value):
    root = read(text)
    assert isinstance(root, Literal)
    assert type(root.value) is type(value)
    assert root.value == value


@pytest.mark.parametrize(
    "text", [r'"\ud800"', r'"\U00110000"', r'"\400"', r"b'\u0041'", "'a\nb'", "1u8", "0x"]
)
def test_invalid_literals(text: str):
    with pytest.raises(CelRefused):
        read(text)


def test_names_that_begin_like_keywords_are_names():
    for name in ("inner", "trueish", "nullable", "asset"):
        with pytest.raises(CelRefused, match=f"undeclared name {name}"):
            compile_selector(f"{name} == 1")


@pytest.mark.parametrize("expression", ["1 in[1]", "1in [1]", "1 in{1: 2}"])
def test_a_keyword_needs_no_space_beside_what_is_no_name(expression: str):
    assert compile_selector(expression)


def test_a_keyword_does_not_begin_a_name():
    """As Kubernetes: it takes the longest token."""
    with pytest.raises(CelRefused, match="1:5: syntax error: unexpected 'indevice'"):
        compile_selector("'d' indevice.attributes")


def test_a_changed_packaged_grammar_is_an_error(monkeypatch: pytest.MonkeyPatch):
    """A release that renames a rule must fail loudly, not parse something else."""
    monkeypatch.setitem(grammar._REPLACED, "no_such_rule", "no_such_rule : IDENT")
    with pytest.raises(Inconsistent, match="no_such_rule"):
        grammar.grammar_text()


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
