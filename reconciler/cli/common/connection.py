"""The cluster that a command reads."""

from typing import Any, NamedTuple


class Connection(NamedTuple):
    """The options that choose a cluster."""

    named: bool
    """Whether any option names a cluster; if not, the defaults of kubectl apply"""
    server: str | None
    kubeconfig: str | None
    context: str | None
    insecure: bool

    def arguments(self) -> dict[str, Any]:
        """The keyword arguments of `connect`."""
        return {
            "server": self.server,
            "kubeconfig": self.kubeconfig,
            "context": self.context,
            "insecure": self.insecure,
        }
