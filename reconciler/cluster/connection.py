"""What our own HTTP/1.1 connections share: the parser, the head of a response, and how one ends.

The parser is llhttp, by httptools.
"""

import asyncio
from abc import ABC, abstractmethod

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from reconciler.cluster.headers import Headers


class Broken(ConnectionError):
    """The connection ended or sent invalid data before the response was complete."""


class Connection(ABC, asyncio.Protocol):
    """Parses the responses of one connection."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._parser = HttpResponseParser(self)
        self._headers = Headers()
        self._to_the_end = False
        """Whether the body ends only with the connection"""

    def abort(self) -> None:
        """Close at once. A response in flight is dropped."""
        if self._transport is not None:
            self._transport.abort()

    @abstractmethod
    def on_message_complete(self) -> None:
        """The response is complete."""

    @abstractmethod
    def _fail(self, exc: Exception) -> None:
        """There will be no response, or no more of it. Nothing if it is complete."""

    def _parse(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except HttpParserError as exc:
            self._fail(Broken(f"the answer is not HTTP: {exc}"))
        except HttpParserUpgrade:
            self._fail(Broken("the server switched to another protocol"))

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        if self._to_the_end and exc is None:
            self.on_message_complete()
        self._fail(Broken(str(exc or "the server closed the connection")))

    # What the parser calls.

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.add(name, value)

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        self._to_the_end = not self._headers.framed and status not in (204, 304) and status >= 200
