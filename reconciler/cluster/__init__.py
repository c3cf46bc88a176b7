"""Talks to an API server: list, watch, write. Only this code uses the network to the cluster."""

import sys

if "kubernetes_validate" not in sys.modules:
    # The dynamic client of kubernetes-asyncio is unused here, but loads this package if it is installed, with
    # every validator of JSON schemas: half of the start time of a command.
    sys.modules["kubernetes_validate"] = None  # type: ignore[assignment]
    try:
        import kubernetes_asyncio  # noqa: F401
    finally:
        del sys.modules["kubernetes_validate"]
