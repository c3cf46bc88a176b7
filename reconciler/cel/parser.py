"""The parser of the grammar: its tables are built once and kept in `parser_tables.json`.

Building them takes 100 ms of the first decision of a process, loading them 6 ms. The file names the grammar
and the version of lark that it was made from; with others, the tables are built. `make tables` writes it.
"""

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import lark
from lark import Lark
from lark.grammar import Rule
from lark.lexer import TerminalDef

from reconciler.cel.grammar import grammar_text

_TABLES = Path(__file__).with_name("parser_tables.json")
_OPTIONS: dict[str, Any] = {
    "start": "expr",
    "parser": "lalr",
    "keep_all_tokens": True,
    "maybe_placeholders": False,
}


def make_parser(builder: object) -> Lark:
    """A parser that calls `builder`'s method of the same name for each rule it reduces."""
    tables = _kept()
    if tables is None:
        return Lark(grammar_text(), transformer=builder, **_OPTIONS)
    # `Lark.load` reads pickles only, and takes no builder.
    return Lark._load_from_dict(  # type: ignore[no-untyped-call]
        tables["data"], tables["memo"], transformer=builder
    )


def tables_text() -> str:
    """The content of the file of tables, for the grammar and the lark that are installed."""
    data, memo = Lark(grammar_text(), **_OPTIONS).memo_serialize([TerminalDef, Rule])
    made = {"made_from": _origin(), "data": data, "memo": memo}
    return json.dumps(made, default=sorted, separators=(",", ":")) + "\n"


def _kept() -> dict[str, Any] | None:
    """The tables of the file, None if it is missing or made from something else."""
    try:
        tables: dict[str, Any] = json.loads(_TABLES.read_bytes(), object_hook=_numbered)
    except (OSError, ValueError):
        return None
    return tables if tables.get("made_from") == _origin() else None


def _origin() -> str:
    return hashlib.sha256(f"{lark.__version__}\n{grammar_text()}".encode()).hexdigest()


def _numbered(value: dict[str, Any]) -> dict[Any, Any]:
    """States and ids are numbers, which JSON cannot have as keys."""
    return {int(key): item for key, item in value.items()} if all(map(str.isdigit, value)) else value


if __name__ == "__main__":
    sys.stdout.write(tables_text())
