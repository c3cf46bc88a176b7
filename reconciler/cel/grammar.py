"""The grammar: cel-python's packaged text, extended for Kubernetes' dialect.

The package itself is never imported: its environment changes the recursion limit of the process.
"""

import re
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from string import ascii_letters, digits

from reconciler.errors import Inconsistent

# Linear patterns that cover every escape; an unterminated string must not match at all.
_ONE_LINE = r"""(?:"(?:[^"\\\n\r]|\\[^\n\r])*"|'(?:[^'\\\n\r]|\\[^\n\r])*')"""
_RAW_ONE_LINE = r"""[rR](?:"[^"\n\r]*"|'[^'\n\r]*')"""
_MULTI_LINE = r'''(?:"""(?:[^"\\]|\\[\s\S]|"(?!""))*"""|\'\'\'(?:[^'\\]|\\[\s\S]|'(?!\'\'))*\'\'\')'''
_RAW_MULTI_LINE = r'''[rR](?:"""(?:[^"]|"(?!""))*"""|\'\'\'(?:[^']|'(?!\'\'))*\'\'\')'''

_REPLACED = {
    "member": "member : member_dot | member_dot_arg | member_index | member_object | primary"
    " | member_dot_optional | member_index_optional\n"
    'member_dot_optional : member ".?" IDENT\n'
    'member_index_optional : member "[" "?" expr "]"',
    "exprlist": 'exprlist : element ("," element)* [","]\nelement : expr | "?" expr',
    "mapinits": 'mapinits : mapinit ("," mapinit)* [","]\nmapinit : expr ":" expr | "?" expr ":" expr',
    "fieldinits": 'fieldinits : IDENT ":" expr ("," IDENT ":" expr)* [","]',
    "relation_in": "relation_in : relation IN\nIN : /in(?![_a-zA-Z0-9])/",
    "STRING_LIT": f"STRING_LIT.2 : /{_ONE_LINE}|{_RAW_ONE_LINE}/",
    "MLSTRING_LIT": f"MLSTRING_LIT.3 : /{_MULTI_LINE}|{_RAW_MULTI_LINE}/",
    "BYTES_LIT": f"BYTES_LIT.4 : /[bB](?:{_MULTI_LINE}|{_RAW_MULTI_LINE}|{_ONE_LINE}|{_RAW_ONE_LINE})/",
    "BOOL_LIT": "BOOL_LIT.2 : /(?:true|false)(?![_a-zA-Z0-9])/",
    "NULL_LIT": "NULL_LIT.2 : /null(?![_a-zA-Z0-9])/",
}

_QUOTES = ('"', "'")
_DIGITS = tuple(digits)
BEGINNINGS: Mapping[str, Sequence[str]] = {
    "IN": ("in",),
    "IDENT": ("_", *ascii_letters),
    "INT_LIT": ("-", *_DIGITS),
    "UINT_LIT": ("-", *_DIGITS),
    "FLOAT_LIT": ("-", ".", *_DIGITS),
    "STRING_LIT": (*_QUOTES, *(raw + quote for raw in "rR" for quote in _QUOTES)),
    "MLSTRING_LIT": tuple(raw + quote * 3 for raw in ("", "r", "R") for quote in _QUOTES),
    "BYTES_LIT": tuple(byte + other for byte in "bB" for other in (*_QUOTES, "r", "R")),
    "BOOL_LIT": ("true", "false"),
    "NULL_LIT": ("null",),
    "WHITESPACE": tuple("\t\n\f\r "),
    "COMMENT": ("//",),
}
"""The texts that the terminals with a pattern begin with: others need not be looked for."""


def grammar_text() -> str:
    """The packaged grammar with some definitions replaced by ours."""
    text = _packaged()
    for name, definition in _REPLACED.items():
        parts = re.split(rf"^{name}[ ]*:.*\n(?:[ \t]+\|.*\n)*", text, flags=re.M)
        if len(parts) != 2:
            raise Inconsistent(
                f"the grammar of cel-python defines {name} {len(parts) - 1} times, expected once"
            )
        text = f"{parts[0]}{definition}\n{parts[1]}"
    return text


def grammar_source() -> str:
    """All that `grammar_text` and the beginnings follow from. Cheap, unlike the text itself."""
    return f"{_packaged()}\n{_REPLACED}\n{BEGINNINGS}"


def _packaged() -> str:
    found = find_spec("celpy")
    if found is None or found.origin is None:
        raise Inconsistent("the grammar of cel-python is not installed")
    return Path(found.origin).with_name("cel.lark").read_text(encoding="utf-8")
