"""Requests on API objects. Success is decoded, everything else becomes one of our errors."""

import json
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal

from pydantic_core import to_json

from reconciler.cluster.answers import READS, refusal
from reconciler.cluster.decoding import Listing, cut_listing, decode
from reconciler.cluster.echoes import Echoes
from reconciler.cluster.kinds import Resource
from reconciler.cluster.transport import Query, Transport
from reconciler.errors import Retry, Undecided
from reconciler.objects.meta import ObjectKey

Raw = dict[str, Any]
PatchType = Literal["application/merge-patch+json", "application/json-patch+json"]
MERGE: PatchType = "application/merge-patch+json"
JSON: PatchType = "application/json-patch+json"


class Client:
    """Speaks to one server, and tries nothing twice: retries belong to the queue and to the watch.

    Every method raises the errors of `answers.refusal` and of `Transport.request`. A write that
    is cancelled may have been applied.
    """

    def __init__(
        self, transport: Transport, *, read_seconds: float = 60.0, write_seconds: float = 10.0
    ) -> None:
        """`read_seconds` must do for a page of a listing; a write is given up after `write_seconds`."""
        self._transport = transport
        self._read_seconds = read_seconds
        self.write_seconds = write_seconds
        self.echoes = Echoes()

    async def fetch(self, path: str, query: Query = ()) -> Raw:
        """The JSON object at a path."""
        value, _ = await self._send("GET", path, query=query)
        return value

    async def list_pages(self, resource: Resource, *, limit: int) -> AsyncIterator[Listing]:
        """All objects of a kind, so many at a time. Raises Relist when the server forgot the listing."""
        query = [("limit", str(limit)), *resource.selection]
        while True:
            body = await self._answer("GET", resource.everywhere, query=query)
            try:
                page = cut_listing(body)
            except ValueError as exc:
                raise Retry(f"{resource.everywhere}: the answer is {exc}") from exc
            yield page
            if not page.token:
                return
            query = [("limit", str(limit)), *resource.selection, ("continue", page.token)]

    def watch(
        self, resource: Resource, *, query: Query, idle: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """The lines of a watch on all objects of a kind; see `Transport.stream`."""
        return self._transport.stream(
            resource.everywhere, query=[("watch", "true"), *resource.selection, *query], idle=idle
        )

    async def get(self, resource: Resource, key: ObjectKey) -> Raw:
        """One object."""
        return await self.fetch(resource.path(key))

    async def create(self, resource: Resource, body: Raw) -> Raw:
        """The object as it was created. Raises Conflict when it exists already."""
        return await self._write("POST", resource.within(body["metadata"].get("namespace", "")), body)

    async def update(self, resource: Resource, body: Raw) -> Raw:
        """Replace an object, except for its status. The body's resourceVersion must be the server's."""
        return await self._write("PUT", resource.path(_key(body)), body)

    async def patch(
        self,
        resource: Resource,
        key: ObjectKey,
        patch: Raw | list[Raw],
        *,
        content_type: PatchType = MERGE,
        subresource: str = "",
    ) -> Raw:
        """Change an object, or a part of it such as its status, and leave what we do not know alone.

        A patch that sets `metadata.resourceVersion` is refused with Conflict unless that is the server's.
        """
        return await self._write("PATCH", resource.path(key, subresource), patch, content_type)

    async def patch_text(
        self,
        resource: Resource,
        key: ObjectKey,
        patch: Raw | list[Raw],
        *,
        content_type: PatchType = MERGE,
        subresource: str = "",
    ) -> bytes:
        """As `patch`; the answer is not looked at."""
        path = resource.path(key, subresource)
        return await self._answer("PATCH", path, body=_encoded(patch), content_type=content_type)

    async def delete(self, resource: Resource, key: ObjectKey) -> Raw:
        """Delete an object. With finalizers it stays, and is returned with a deletionTimestamp."""
        value, _ = await self._send("DELETE", resource.path(key))
        return value

    async def _write(
        self, method: str, path: str, value: Raw | list[Raw], content_type: str = "application/json"
    ) -> Raw:
        answer, _ = await self._send(method, path, body=_encoded(value), content_type=content_type)
        return answer

    async def _send(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        body: bytes | None = None,
        content_type: str = "application/json",
    ) -> tuple[Raw, str | None]:
        answer = await self._answer(method, path, query=query, body=body, content_type=content_type)
        try:
            return decode(answer)
        except ValueError as exc:
            # It was applied, but what became of the object is unknown: a read settles it.
            error = Retry if method in READS else Undecided
            raise error(f"{method} {path}: the answer is not JSON: {exc}") from exc

    async def _answer(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        body: bytes | None = None,
        content_type: str = "application/json",
    ) -> bytes:
        response = await self._transport.request(
            method,
            path,
            query=query,
            body=body,
            content_type=content_type,
            timeout=self._read_seconds if method in READS else self.write_seconds,
        )
        if not 200 <= response.status <= 299:
            raise refusal(method, path, response)
        return response.body


def _encoded(value: Raw | list[Raw]) -> bytes:
    """JSON. Opaque parameters may nest deeper than the fast encoder goes."""
    try:
        return to_json(value)
    except ValueError:
        return json.dumps(value, separators=(",", ":")).encode()


def _key(body: Raw) -> ObjectKey:
    return ObjectKey(body["metadata"].get("namespace", ""), body["metadata"]["name"])
