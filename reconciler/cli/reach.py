"""The options by which commands that look at a cluster once are told which."""

from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple

import click

from reconciler.operations.logs.setup import configure

F = Callable[..., Any]


class Reach(NamedTuple):
    """Which cluster is meant, and how far its certificate has to be believed."""

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


def cluster_options(func: F) -> F:
    """`--cluster`, `--kubeconfig`, `--context`, `--server`; the command gets them as one `reach`."""

    @wraps(func)
    def command(
        *,
        cluster: bool,
        kubeconfig: str | None,
        context: str | None,
        server: str | None,
        insecure_skip_tls_verify: bool,
        **rest: Any,
    ) -> Any:
        configure("warning")
        named = bool(cluster or kubeconfig or context or server)
        return func(reach=Reach(named, server, kubeconfig, context, insecure_skip_tls_verify), **rest)

    options = (
        click.option(
            "--cluster",
            is_flag=True,
            help="Look at a cluster: that of KUBECONFIG or ~/.kube/config, or the one this runs in.",
        ),
        click.option(
            "--kubeconfig",
            type=click.Path(),
            metavar="FILE",
            help="Look at the cluster of this kubeconfig.",
        ),
        click.option(
            "--context", metavar="NAME", help="Context of the kubeconfig.  [default: its current one]"
        ),
        click.option("--server", metavar="URL", help="Look at an API server that wants no credentials."),
        insecure_option(),
    )
    made: F = command
    for option in reversed(options):
        made = option(made)
    return made


def insecure_option(**defaults: Any) -> Callable[[F], F]:
    """`--insecure-skip-tls-verify`."""
    return click.option(
        "--insecure-skip-tls-verify",
        is_flag=True,
        help="Believe any certificate. A kubeconfig that says so is refused without this flag.",
        **defaults,
    )
