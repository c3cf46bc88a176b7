"""Reads an OpenAPI v2 document back from protobuf. Source of the numbers: gnostic's OpenAPIv2.proto."""

import json
from collections.abc import Iterator
from typing import Any

_TEXTS = {1: "$ref", 2: "format", 4: "description"}


def read_document(data: bytes) -> dict[str, Any]:
    """The document as JSON would have it."""
    found: dict[str, Any] = {"definitions": {}}
    for number, part in _parts(data):
        match number:
            case 1:
                found["swagger"] = part.decode()
            case 2:
                info = dict(_parts(part))
                found["info"] = {"title": info[1].decode(), "version": info[2].decode()}
            case 8:
                assert part == b""  # without paths
            case 9:
                found["definitions"] = {name: _schema(item) for name, item in _entries(part, 1)}
            case _:
                raise AssertionError(f"unexpected member {number} of the document")
    return found


def _schema(data: bytes) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for number, part in _parts(data):
        match number:
            case 1 | 2 | 4:
                found[_TEXTS[number]] = part.decode()
            case 19:
                found.setdefault("required", []).append(part.decode())
            case 21:
                found["additionalProperties"] = _schema(_only(part, 1))
            case 22:
                found["type"] = _only(part, 1).decode()
            case 23:
                found["items"] = _schema(_only(part, 1))
            case 25:
                found["properties"] = {name: _schema(item) for name, item in _entries(part, 1)}
            case 31:
                found |= _extension(part)
            case _:
                raise AssertionError(f"unexpected member {number} of a schema")
    return found


def _extension(data: bytes) -> dict[str, Any]:
    entry = dict(_parts(data))
    return {entry[1].decode(): json.loads(_only(entry[2], 2))}


def _entries(data: bytes, number: int) -> Iterator[tuple[str, bytes]]:
    for at, part in _parts(data):
        assert at == number
        entry = dict(_parts(part))
        yield entry[1].decode(), entry.get(2, b"")


def _only(data: bytes, number: int) -> bytes:
    ((at, part),) = _parts(data)
    assert at == number
    return part


def _parts(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(data):
        key, at = _number(data, at)
        assert key & 7 == 2
        size, at = _number(data, at)
        yield key >> 3, data[at : at + size]
        at += size
    assert at == len(data)


def _number(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 0x80:
            return value, at
