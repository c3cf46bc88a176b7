"""What kubectl reads about the served kinds: OpenAPI v3, and v2 derived from the same schemas."""

from reconciler.embedded.openapi.schemas import Served
from reconciler.embedded.openapi.v2 import v2_document, v2_protobuf
from reconciler.embedded.openapi.v3 import v3_document

__all__ = ["Served", "v2_document", "v2_protobuf", "v3_document"]
