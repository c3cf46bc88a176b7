"""Requests on API objects. Decodes successful responses; converts all others to our errors."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, Literal

from reconciler.api.objects.meta import ObjectKey
from reconciler.api.versions.reading import loaded
from reconciler.cluster.events import Listing, cut_listing
from reconciler.cluster.kinds import PAGE, Resource
from reconciler.cluster.transport import READS, Lines, Query, Request, Transport, WatchRequest, refusal
from reconciler.errors import Retry, Undecided

Raw = dict[str, Any]
PatchType = Literal["application/merge-patch+json", "application/json-patch+json"]
PAGE_BYTES = 2 * 2**20
"""Aim for the size of a page of a listing: cutting it into objects holds the loop for two milliseconds"""
UNCHECKED: Query = (("fieldValidation", "Ignore"),)
"""Of patches: by default a server reads the patched object strictly, only to warn of fields that it does not
know. Nobody reads that, and it costs the server a twentieth or more of a write; `dropped` finds them.
"""
MERGE: PatchType = "application/merge-patch+json"
JSON: PatchType = "application/json-patch+json"


class Client:
    """Talks to one server. Retries nothing: the queue and the watch retry.

    Every method raises the errors of `answers.refusal` and of `Transport.send`. A write that
    is cancelled may have been applied.
    """

    def __init__(
        self, transport: Transport, *, read_seconds: float = 60.0, write_seconds: float = 10.0
    ) -> None:
        """`read_seconds` must suffice for a page of a listing; a write times out after `write_seconds`."""
        self._transport = transport
        self._read_seconds = read_seconds
        self.write_seconds = write_seconds
        self.last_contact: dict[str, float] = {}
        """Kind -> when the server last sent anything of it, in seconds of the event loop. Watches set it."""

    async def fetch(self, path: str, query: Query = ()) -> Raw:
        """The JSON object at a path."""
        return await self._object(self._request("GET", path, query=query))

    async def list_pages(self, resource: Resource, *, limit: int) -> AsyncGenerator[Listing, None]:
        """All objects of a kind in pages. Raises Relist if the continue token expired.

        The first page has `limit` objects, later ones as many as fit in PAGE_BYTES by what came before. A
        page is asked for while the caller works on the one before it. Close the generator if you leave early.
        """
        ahead = asyncio.create_task(self._page(resource, limit, ""))
        try:
            while True:
                page = await ahead
                if page.token:
                    limit = _next_limit(limit, page)
                    ahead = asyncio.create_task(self._page(resource, limit, page.token))
                    await asyncio.sleep(0)  # have it sent before the work begins
                yield page
                if not page.token:
                    return
        finally:
            ahead.cancel()
            await asyncio.wait([ahead])
            if not ahead.cancelled():
                ahead.exception()  # it is nobody's any more
            del ahead  # see `unless`

    async def _page(self, resource: Resource, limit: int, token: str) -> Listing:
        more = [("continue", token)] if token else []
        query = [("limit", str(limit)), *resource.selection, *more]
        body = await self._answer(self._request("GET", resource.everywhere, query=query))
        try:
            return cut_listing(body)
        except ValueError as exc:
            raise Retry(f"{resource.everywhere}: the answer is {exc}") from exc

    def watch(self, resource: Resource, *, query: Query, idle: float) -> Lines:
        """The lines of a watch on all objects of a kind; see `Transport.stream`."""
        return self._transport.stream(
            WatchRequest(
                resource.everywhere, query=[("watch", "true"), *resource.selection, *query], idle=idle
            )
        )

    async def get(self, resource: Resource, key: ObjectKey) -> Raw:
        """One object."""
        return await self.fetch(resource.path(key))

    async def create(self, resource: Resource, body: Raw) -> Raw:
        """The object as created. Raises Conflict if it exists already."""
        return await self._post(resource.within(body["metadata"].get("namespace", "")), body)

    async def evict(self, resource: Resource, key: ObjectKey, body: Raw) -> Raw:
        """Post an Eviction. Raises Retry if a budget does not allow it now."""
        return await self._post(resource.path(key, "eviction"), body)

    async def patch(
        self,
        resource: Resource,
        key: ObjectKey,
        patch: Raw | list[Raw],
        *,
        content_type: PatchType = MERGE,
        subresource: str = "",
    ) -> Raw:
        """Change an object, or a subresource such as its status. Unknown fields stay unchanged.

        Raises Conflict if the patch sets `metadata.resourceVersion` to another than the server's.
        """
        path = resource.path(key, subresource)
        return await self._object(
            self._request("PATCH", path, query=UNCHECKED, body=patch, content_type=content_type)
        )

    async def delete(self, resource: Resource, key: ObjectKey) -> Raw:
        """Delete an object. With finalizers it stays, and is returned with a deletionTimestamp."""
        return await self._object(self._request("DELETE", resource.path(key)))

    async def _post(self, path: str, body: Raw) -> Raw:
        return await self._object(self._request("POST", path, body=body))

    async def _object(self, request: Request) -> Raw:
        answer = await self._answer(request)
        try:
            return loaded(answer)[0]
        except ValueError as exc:
            # It was applied, but what became of the object is unknown: a read settles it.
            error = Retry if request.method in READS else Undecided
            raise error(f"{request.method} {request.path}: the answer is not JSON: {exc}") from exc

    async def _answer(self, request: Request) -> bytes:
        response = await self._transport.send(request)
        if not 200 <= response.status <= 299:
            raise refusal(request.method, request.path, response)
        return response.body

    def _request(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        body: Any = None,
        content_type: str = "application/json",
    ) -> Request:
        timeout = self._read_seconds if method in READS else self.write_seconds
        return Request(method, path, query=query, body=body, content_type=content_type, timeout=timeout)


def _next_limit(limit: int, page: Listing) -> int:
    """Objects to ask for after a page. It grows slowly, since later objects may be larger; at most PAGE."""
    largest = max(map(len, page.items), default=1)
    return max(min(PAGE_BYTES // largest, 2 * limit, PAGE), 1)
