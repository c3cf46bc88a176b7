"""Which cluster options and environment choose: its address, context and namespace. Sends nothing."""

from os import environ
from pathlib import Path
from typing import Any

from msgspec import Struct

from reconciler.cluster.impersonation import USER, headers
from reconciler.cluster.kubeconfig import Kubeconfig, merge, places
from reconciler.errors import Rejected

DEFAULT_NAMESPACE = "default"
POD_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
"""The namespace of the pod that this process runs in"""
_OTHERWISE = "set a working one with --kubeconfig or KUBECONFIG, or a server with --server"


class Target(Struct, frozen=True):
    """A cluster: a plain URL, a context of a kubeconfig, or the cluster that this process runs in."""

    server: str
    """Its URL"""
    context: str = ""
    """Empty without a kubeconfig"""
    cluster: str = ""
    """The entry of the kubeconfig with its address and its authority"""
    namespace: str = DEFAULT_NAMESPACE
    """The namespace of names without one"""
    kubeconfig: Kubeconfig | None = None
    user: str = ""
    """The entry of the kubeconfig with the credentials; empty if it has none"""
    in_pod: bool = False
    """Whether the service account of the pod has the credentials"""

    def __str__(self) -> str:
        """Server and context, without a password."""
        address = without_password(self.server)
        if self.context:
            named = dict(self.impersonation()).get(USER)
            return f"{address} (context {self.context}{f', as {named}' if named else ''})"
        return f"{address} (service account of this pod)" if self.in_pod else address

    def settings(self) -> dict[str, Any]:
        """The values of the kubeconfig about its server."""
        found = self.kubeconfig.entry("clusters", self.cluster) if self.kubeconfig else None
        return found or {}

    def impersonation(self) -> list[tuple[str, str]]:
        """Headers that name the account to act as, where the kubeconfig names one. Raises Rejected."""
        found = self.kubeconfig.entry("users", self.user) if self.kubeconfig else None
        return headers(self.user, found or {})


def choose(*, server: str | None, kubeconfig: str | None, context: str | None) -> Target:
    """The cluster that the options choose, in kubectl's order. Raises Rejected if there is none.

    Without a server: the named kubeconfig, or KUBECONFIG, or ~/.kube/config, or the service account.
    """
    if server is not None:
        if not server.startswith(("http://", "https://")):
            raise Rejected(f"cannot reach a cluster: {server!r} is not an http or https URL")
        return Target(server.rstrip("/"))
    files = places(kubeconfig)
    found = merge(files)
    if kubeconfig is not None and not found.files:
        raise Rejected(f"cannot reach a cluster: there is no kubeconfig at {kubeconfig}; {_OTHERWISE}")
    if found.empty and kubeconfig is None and context is None:
        return _of_pod(files)
    return _of_context(found, files, context)


def without_password(url: str) -> str:
    """The URL without user, password and query."""
    scheme, slashes, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    return f"{scheme}{slashes}{authority.rpartition('@')[2]}{slash}{path.partition('?')[0]}"


def _of_pod(files: tuple[str, ...]) -> Target:
    host = environ.get("KUBERNETES_SERVICE_HOST", "")
    if not host:
        raise Rejected(
            f"cannot reach a cluster: no kubeconfig at {', '.join(files)}, and not in a pod; {_OTHERWISE}"
        )
    try:
        namespace = POD_NAMESPACE.read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        namespace = ""
    port = environ.get("KUBERNETES_SERVICE_PORT", "")
    server = f"https://{f'[{host}]' if ':' in host else host}:{port}"
    return Target(server, namespace=namespace or DEFAULT_NAMESPACE, in_pod=True)


def _of_context(found: Kubeconfig, files: tuple[str, ...], context: str | None) -> Target:
    where = ", ".join(found.files or files)
    name = context or found.value["current-context"]
    if not name:
        raise Rejected(f"cannot reach a cluster: {where}: current-context is not set; {_OTHERWISE}")
    chosen = found.entry("contexts", name)
    if chosen is None:
        known = ", ".join(sorted(one["name"] for one in found.value["contexts"])) or "none"
        raise Rejected(
            f"cannot reach a cluster: {where}: there is no context {name}; contexts: {known}; {_OTHERWISE}"
        )
    cluster, user = chosen.get("cluster") or "", chosen.get("user") or ""
    settings = found.entry("clusters", cluster)
    if settings is None or (user and found.entry("users", user) is None):
        missing = f"cluster {cluster}" if settings is None else f"user {user}"
        raise Rejected(f"cannot reach a cluster: {where}: context {name} names {missing}, which is missing")
    server = str(settings.get("server") or "").rstrip("/")
    if not server:
        raise Rejected(f"cannot reach a cluster: {where}: cluster {cluster} has no server")
    if not user and server.startswith("https:"):
        raise Rejected(f"cannot reach a cluster: {where}: context {name} has no user")
    return Target(server, name, cluster, chosen.get("namespace") or DEFAULT_NAMESPACE, found, user)
