"""The grammar: cel-python's packaged text, extended for Kubernetes' dialect, and lark's parser for it.

The package itself is never imported: its environment changes the recursion limit of the process.
"""

import os
import re
import stat
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from lark import Lark

from reconciler.errors import Inconsistent

# Linear patterns that cover every escape; an unterminated string must not match at all.
_ONE_LINE = r"""(?:"(?:[^"\\\n\r]|\\[^\n\r])*"|'(?:[^'\\\n\r]|\\[^\n\r])*')"""
_RAW_ONE_LINE = r"""[rR](?:"[^"\n\r]*"|'[^'\n\r]*')"""
_MULTI_LINE = r'''(?:"""(?:[^"\\]|\\[\s\S]|"(?!""))*"""|\'\'\'(?:[^'\\]|\\[\s\S]|'(?!\'\'))*\'\'\')'''
_RAW_MULTI_LINE = r'''[rR](?:"""(?:[^"]|"(?!""))*"""|\'\'\'(?:[^']|'(?!\'\'))*\'\'\')'''

_SIGN = r"(?:-[\t\n\f\r ]*)?"

_REPLACED = {
    "unary": "unary : member | unary_not+ member | unary_neg+ member",
    "member": "member : member_dot | member_dot_arg | member_index | member_object | primary"
    " | member_dot_optional | member_index_optional\n"
    'member_dot_optional : member ".?" IDENT\n'
    'member_index_optional : member "[" "?" expr "]"',
    "list_lit": 'list_lit : "[" [items] "]"\nitems : element ("," element)* [","] | ","',
    "exprlist": 'exprlist : element ("," element)*\nelement : expr | "?" expr',
    "mapinits": 'mapinits : mapinit ("," mapinit)* [","] | ","\nmapinit : expr ":" expr | "?" expr ":" expr',
    "fieldinits": 'fieldinits : IDENT ":" expr ("," IDENT ":" expr)* [","]',
    "relation_in": "relation_in : relation IN\nIN : /in(?![_a-zA-Z0-9])/",
    "INT_LIT": f"INT_LIT : /{_SIGN}(?:0x[0-9a-fA-F]+|[0-9]+)/",
    "FLOAT_LIT": f"FLOAT_LIT : /{_SIGN}(?:[0-9]*\\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)/",
    "STRING_LIT": f"STRING_LIT.2 : /{_ONE_LINE}|{_RAW_ONE_LINE}/",
    "MLSTRING_LIT": f"MLSTRING_LIT.3 : /{_MULTI_LINE}|{_RAW_MULTI_LINE}/",
    "BYTES_LIT": f"BYTES_LIT.4 : /[bB](?:{_MULTI_LINE}|{_RAW_MULTI_LINE}|{_ONE_LINE}|{_RAW_ONE_LINE})/",
    "BOOL_LIT": "BOOL_LIT.2 : /(?:true|false)(?![_a-zA-Z0-9])/",
    "NULL_LIT": "NULL_LIT.2 : /null(?![_a-zA-Z0-9])/",
}


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


def _packaged() -> str:
    found = find_spec("celpy")
    if found is None or found.origin is None:
        raise Inconsistent("the grammar of cel-python is not installed")
    return Path(found.origin).with_name("cel.lark").read_text(encoding="utf-8")


def built_parser(builder: object) -> Lark:
    """The parser, which calls the method of `builder` for each rule. Lark caches it; building takes 0.2 s."""
    file = _cache_file()
    parser = Lark(
        grammar_text(),
        start="expr",
        parser="lalr",
        keep_all_tokens=True,
        maybe_placeholders=False,
        transformer=builder,
        cache=False if file is None else str(file),
    )
    if file is not None:
        with suppress(OSError):
            file.chmod(0o644)
    return parser


def _cache_file() -> Path | None:
    """A file for lark's cache that only we and root can write, since lark unpickles it; None without one.

    It is below `XDG_CACHE_HOME` or `~/.cache`, never in a temporary folder that others share.
    """
    home = os.environ.get("XDG_CACHE_HOME", "")
    try:
        folder = (Path(home) if os.path.isabs(home) else Path("~/.cache").expanduser()) / "dra-reconciler"
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        file = folder / "cel-parser"
        return file if _is_ours(folder) and (_is_ours(file) or not os.path.lexists(file)) else None
    except (OSError, RuntimeError):  # no right to make the folder, or no home
        return None


def _is_ours(path: Path) -> bool:
    if not path.exists():
        return False
    found = path.lstat()
    others_write = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return found.st_uid in (0, os.getuid()) and not others_write and not stat.S_ISLNK(found.st_mode)
