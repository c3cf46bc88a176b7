"""docs/settings.md, made from the settings themselves: `python -m reconciler.cli.settings_page`."""

import ast
import sys
from collections.abc import Mapping
from inspect import cleandoc, getsource
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from annotated_types import Ge, Gt, Le
from pydantic import StringConstraints
from pydantic.fields import FieldInfo

from reconciler.cli.run import run
from reconciler.settings import Names, Settings

_HEAD = """\
# Settings

Made by `python -m reconciler.cli.settings_page > docs/settings.md` from the settings; do not edit.

All of `dra-reconciler run`. Each can be given as a flag where it has one, in the environment, and in a YAML
file that `--config` names, by its name:

```yaml
own_drivers: [gpu.example.com]
log_level: debug
```

Flags win over the environment, which wins over the file. A name that is not here is refused in the file and
passed over in the environment. What is wrong ends the program before it asks a server anything, with one line
that names the setting.
"""
_WORDS: Mapping[object, str] = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


def page() -> str:
    """The whole page."""
    told = _docstrings()
    flags = {
        param.name: max(param.opts, key=len) for param in run.params if param.param_type_name == "option"
    }
    return "\n".join(
        [_HEAD, *(_section(name, flags.get(name), told[name]) for name in Settings.model_fields)]
    )


def _docstrings() -> dict[str, str]:
    """Field -> the text below it."""
    (found,) = ast.parse(getsource(Settings)).body
    assert isinstance(found, ast.ClassDef)
    return {
        before.target.id: " ".join(cleandoc(after.value.value).split())
        for before, after in zip(found.body, found.body[1:], strict=False)
        if isinstance(before, ast.AnnAssign)
        and isinstance(before.target, ast.Name)
        and isinstance(after, ast.Expr)
        and isinstance(after.value, ast.Constant)
        and isinstance(after.value.value, str)
    }


def _section(name: str, flag: str | None, told: str) -> str:
    field = Settings.model_fields[name]
    ways = [f"`{flag}`"] if flag else []
    ways.append(f"`{Settings.model_config['env_prefix']}{name.upper()}`")
    return f"## {name}\n{told}\n\n{', '.join(ways)}; {_kind(name, field)}; default {_default(field)}.\n"


def _kind(name: str, field: FieldInfo) -> str:
    """What can be written, in words."""
    annotation: Any = field.annotation
    if annotation == Names.__origin__:  # type: ignore[attr-defined]
        return "names, separated by commas in the environment"
    inner = [one for one in get_args(annotation) if one is not type(None)]
    if get_origin(annotation) is Literal:
        return " or ".join(f"`{choice}`" for choice in get_args(annotation))
    if get_origin(annotation) is dict:
        return "`NAME=MODE`, separated by commas in the environment"
    if type(None) in get_args(annotation):
        annotation = getattr(inner[0], "__origin__", inner[0])
        if any(isinstance(one, StringConstraints) for one in getattr(inner[0], "__metadata__", ())):
            return "`NAMESPACE/NAME`"
    if annotation is Path:
        return "a path"
    bounds = "".join(filter(None, (_bound(one) for one in field.metadata)))
    word = "seconds" if name.endswith("_seconds") else _WORDS[annotation]
    return word + bounds


def _bound(limit: object) -> str:
    match limit:
        case Gt(gt=value):
            return f" above {value}"
        case Ge(ge=value):
            return f" from {value}"
        case Le(le=value):
            return f" to {value}"
    return ""


def _default(field: FieldInfo) -> str:
    default = field.get_default(call_default_factory=True)
    if default is None or default == "" or (isinstance(default, frozenset | dict) and not default):
        return "none"
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    return f"`{default:g}`" if isinstance(default, float) else f"`{default}`"


if __name__ == "__main__":
    sys.stdout.write(page())
