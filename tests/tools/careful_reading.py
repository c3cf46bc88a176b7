"""What the careful reader makes of an object, to compare the fast readers of texts with."""

from typing import Any

from reconciler.api.versions.reading import read
from reconciler.errors import Malformed


def carefully(kind: str, raw: Any) -> str:
    """What `read` makes of an object of the core group; types count, so that 1 is not true."""
    try:
        return repr(read({"kind": kind, "apiVersion": "v1", **raw}))
    except Malformed:
        return "refused"
