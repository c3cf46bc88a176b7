"""How we talk to an API server. The only code that touches the network."""

import sys

if "kubernetes_validate" not in sys.modules:
    # The dynamic client of kubernetes-asyncio, which nothing here uses, would load that package where it is
    # installed, and with it every validator of JSON schemas: half of the time that a command takes to start.
    sys.modules["kubernetes_validate"] = None  # type: ignore[assignment]
    try:
        import kubernetes_asyncio  # noqa: F401
    finally:
        del sys.modules["kubernetes_validate"]
