"""The cluster that a command reads."""

import sys
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from reconciler.cluster.target import Target


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

    def arguments(self) -> dict[str, Any]:
        """The keyword arguments of `connect`."""
        return {
            "server": self.server,
            "kubeconfig": self.kubeconfig,
            "context": self.context,
            "insecure": self.insecure,
        }

    def announce(self, target: object) -> None:
        """Say on standard error which cluster is read: the current context may be another than expected."""
        # Late import: help needs none of it.
        from reconciler.cli.common.console import Console  # noqa: PLC0415
        from reconciler.cli.common.output import print_line  # noqa: PLC0415

        if not self.quiet:
            print_line(Console(sys.stderr), f"cluster: {target}")  # it names the context itself

    def target(self) -> "Target":
        """The cluster that the options choose. Raises Rejected if there is none."""
        # Late import: commands that read manifests need no kubeconfig.
        from reconciler.cluster.target import choose_target  # noqa: PLC0415

        return choose_target(server=self.server, kubeconfig=self.kubeconfig, context=self.context)
