"""The cluster that a command reads."""

from typing import Any, NamedTuple

import click

from reconciler.cli.common.plain_text import plain


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
        if not self.quiet:
            click.echo(plain(f"cluster: {target}"), err=True)

    def namespace(self) -> str:
        """The namespace of names without one: that of the context. Raises Rejected without a cluster."""
        # Late import: commands that read manifests need no kubeconfig.
        from reconciler.cluster.target import choose  # noqa: PLC0415

        chosen = choose(server=self.server, kubeconfig=self.kubeconfig, context=self.context)
        return chosen.namespace
