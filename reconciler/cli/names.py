"""Names of a cluster's objects for completion, as kubectl completes them: within a second, kept for a while.

Whatever goes wrong, there are just no names: a completion never prints an error.
"""

import json
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import click

from reconciler.cli.connection import Connection
from reconciler.errors import Gone

SECONDS = 1.0
"""Maximum time for an answer of the cluster"""
KEPT_SECONDS = 15.0
"""Names are kept so long, because a shell asks at every key"""
MOST_NAMES = 500
Complete = Callable[[click.Context, click.Parameter, str], list[str]]


def completing(kind: str, *, typed: Mapping[str, str] | None = None) -> Complete:
    """Complete names of a kind, for `shell_complete`.

    `typed` are kinds of names that begin with `PREFIX/`, such as `pod/NAME`.
    """

    def complete(ctx: click.Context, _param: click.Parameter, begun: str) -> list[str]:
        prefix, slash, rest = begun.rpartition("/")
        wanted = kind if not slash else (typed or {}).get(prefix, "")
        names = _names(wanted, ctx.params) if wanted and not ctx.params.get("files") else []
        words = [f"{one}/" for one in typed or () if not slash and one.startswith(begun)]
        return [*words, *(f"{prefix}{slash}{name}" for name in names if name.startswith(rest))]

    return complete


def _names(kind: str, given: Mapping[str, Any]) -> list[str]:
    connection = Connection.of(given)._replace(named=True)
    namespace = given.get("namespace") or ""
    file = _file(json.dumps([kind, namespace, connection[:5], os.environ.get("KUBECONFIG")]))
    with suppress(Exception):
        written, kept = json.loads(file.read_text())
        if 0 <= time.time() - written < KEPT_SECONDS:  # the clock may have been set back
            return list(kept)
    names: list[str] = []
    with suppress(Exception):
        names = _listed(kind, namespace, connection)
    with suppress(OSError):
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Also if there are none: a cluster that does not answer is not asked at every key.
        file.write_text(json.dumps([time.time(), names]))
    return names


def _file(asked: str) -> Path:
    home = os.environ.get("XDG_CACHE_HOME", "")
    folder = Path(home) if os.path.isabs(home) else Path("~/.cache").expanduser()
    return folder / "dra-reconciler" / f"names-{sha256(asked.encode()).hexdigest()[:16]}"


def _listed(kind: str, namespace: str, connection: Connection) -> list[str]:
    # Late imports: only a completion that is not kept needs the client.
    import asyncio  # noqa: PLC0415

    from reconciler.api.versions.kinds import KINDS  # noqa: PLC0415
    from reconciler.cli.cluster import connected  # noqa: PLC0415
    from reconciler.cluster.kinds import resource_of  # noqa: PLC0415

    async def ask() -> list[str]:
        within = namespace or connection.target().namespace
        async with asyncio.timeout(SECONDS), connected(connection, announced=False) as client:
            for version in KINDS[kind].versions:
                path = resource_of(kind, version).within(within)
                with suppress(Gone):  # an older server
                    found = await client.fetch(path, [("limit", str(MOST_NAMES))])
                    return sorted(item["metadata"]["name"] for item in found["items"])
        return []

    return asyncio.run(ask())
