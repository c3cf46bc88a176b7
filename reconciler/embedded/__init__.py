"""An API server in memory. It answers like a real one, for demos, tests and measurements."""

from reconciler.api.validation.kinds import Column, GroupVersion, ServedKind
from reconciler.embedded.api import ApiServer
from reconciler.embedded.controllers import run_controllers
from reconciler.embedded.http import serve
from reconciler.embedded.routing import Request, Response, Stream

__all__ = [
    "ApiServer",
    "Column",
    "GroupVersion",
    "Request",
    "Response",
    "ServedKind",
    "Stream",
    "run_controllers",
    "serve",
]
