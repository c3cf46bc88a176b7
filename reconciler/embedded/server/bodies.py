"""Decode the bodies of requests: JSON, YAML, and protobuf of a few kinds."""

from typing import Any

from reconciler.api.validation.encoding import decode_json
from reconciler.api.validation.status import unsupported_media_type
from reconciler.api.validation.yaml_bodies import decode_yaml
from reconciler.embedded.server.messages import Request
from reconciler.embedded.server.protobuf import MEDIA, decode_protobuf


def media_type(request: Request) -> str:
    """The media type of the body, without parameters."""
    return request.headers.get("Content-Type", "").partition(";")[0].strip()


def decode_body(request: Request) -> Any:
    """The body as a value. Raises a 400, or a 415 for unknown media types."""
    media = media_type(request)
    if media in ("application/yaml", "application/x-yaml"):
        return decode_yaml(request.body)
    if media == MEDIA:
        return decode_protobuf(request.body)
    # Tools that send bytes without a media type send JSON.
    if media not in ("", "application/json", "*/*", "application/octet-stream"):
        raise unsupported_media_type()
    return decode_json(request.body)
