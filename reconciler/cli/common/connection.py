"""Which cluster a command asks."""

from typing import Any, NamedTuple


class Reach(NamedTuple):
    """Which cluster is meant, and whether any certificate of it is accepted."""

    named: bool
    """Whether any option names a cluster; otherwise it is the one of the usual places"""
    server: str | None
    kubeconfig: str | None
    context: str | None
    insecure: bool

    def arguments(self) -> dict[str, Any]:
        """As `connect` takes them."""
        return {
            "server": self.server,
            "kubeconfig": self.kubeconfig,
            "context": self.context,
            "insecure": self.insecure,
        }
