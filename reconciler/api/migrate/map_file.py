"""Reads the file that says what extended resources stand for."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reconciler.api.manifests.parsing import ParseError
from reconciler.api.manifests.yaml_text import parse
from reconciler.errors import Malformed


def read_map(path: Path | None) -> Mapping[str, Any] | None:
    """The content, for `mapping`, which checks it; None without a file. Raises Malformed."""
    if path is None:
        return None
    try:
        found = parse(path.read_text(encoding="utf-8"))
    except (ParseError, UnicodeDecodeError) as exc:
        raise Malformed(str(path), "", f"is not YAML: {exc}") from exc
    except OSError as exc:
        raise Malformed(str(path), "", f"cannot be read: {exc.strerror}") from exc
    return found if isinstance(found, dict) else {}
