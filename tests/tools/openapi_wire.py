"""Reads an OpenAPI v2 document back from protobuf. Source of the numbers: gnostic's OpenAPIv2.proto."""

import json
from collections.abc import Iterator
from typing import Any

_TEXTS = {1: "$ref", 2: "format", 4: "description"}
_METHODS = {2: "get", 3: "put", 4: "post", 5: "delete", 8: "patch"}


def read_document(data: bytes) -> dict[str, Any]:
    """The document as JSON would have it."""
    found: dict[str, Any] = {"paths": {}, "definitions": {}}
    for number, part in _parts(data):
        match number:
            case 1:
                found["swagger"] = part.decode()
            case 2:
                info = dict(_parts(part))
                found["info"] = {"title": info[1].decode(), "version": info[2].decode()}
            case 8:
                found["paths"] = {name: _path(item) for name, item in _entries(part, 2)}
            case 9:
                found["definitions"] = {name: _schema(item) for name, item in _entries(part, 1)}
            case _:
                raise AssertionError(f"unexpected member {number} of the document")
    return found


def _path(data: bytes) -> dict[str, Any]:
    return {_METHODS[number]: _operation(part) for number, part in _parts(data)}


def _operation(data: bytes) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for number, part in _parts(data):
        match number:
            case 7:
                found.setdefault("consumes", []).append(part.decode())
            case 8:
                query = dict(_parts(_only(_only(_only(part, 1), 2), 3)))
                names = {2: "in", 4: "name", 6: "type"}
                found.setdefault("parameters", []).append({names[at]: x.decode() for at, x in query.items()})
            case 9:
                found["responses"] = {
                    name: {"description": _only(_only(item, 1), 1).decode()}
                    for name, item in _entries(part, 1)
                }
            case 13:
                found |= _extension(part)
            case _:
                raise AssertionError(f"unexpected member {number} of an operation")
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
