"""Which cluster a command asks, as its options say."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

from reconciler.cli.exits import Unreachable, errors_as
from reconciler.cluster.target import Target, choose_target

HELD_ROOM = "dra-reconciler/dra-reconciler-held-room"
"""The ConfigMap of deploy/ that says which room is held"""


class Connection(NamedTuple):
    """The options that choose a cluster."""

    named: bool
    """Whether any option names a cluster; if not, the defaults of kubectl apply"""
    server: str | None
    kubeconfig: str | None
    context: str | None
    insecure: bool
    quiet: bool = False
    """Whether the output is for programs: then nothing is said about the cluster"""
    held_room: tuple[str, ...] = ()
    """NAMESPACE/NAME of the ConfigMaps that say which room is held, for commands that respect it"""

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """That of the options of a command."""
        named = any(given.get(name) for name in ("cluster", "kubeconfig", "context", "server"))
        insecure = bool(given.get("insecure_skip_tls_verify"))
        return cls(named, given.get("server"), given.get("kubeconfig"), given.get("context"), insecure)

    def target(self) -> Target:
        """The cluster that the options choose. Raises Unreachable if there is none."""
        with errors_as(Unreachable):
            return choose_target(server=self.server, kubeconfig=self.kubeconfig, context=self.context)
