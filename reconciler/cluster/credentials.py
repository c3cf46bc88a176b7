"""Address of the server and credentials: from a URL, a kubeconfig, or a service account."""

import asyncio
from pathlib import Path

import structlog
import yaml
from kubernetes_asyncio.client import Configuration
from kubernetes_asyncio.config import ConfigException, load_incluster_config
from kubernetes_asyncio.config.kube_config import (
    ENV_KUBECONFIG_PATH_SEPARATOR,
    KUBE_CONFIG_DEFAULT_LOCATION,
    KubeConfigLoader,
    load_kube_config,
)

from reconciler.errors import Rejected, Retry

log = structlog.get_logger()

# The library raises TypeError for a file that is no map, and reads it recursively.
_UNUSABLE = (ConfigException, OSError, yaml.YAMLError, TypeError, ValueError, RecursionError)

REFRESH_SECONDS = 60.0
"""Time between two checks of tokens. Plugins and files renew them minutes before they expire."""


async def configuration_for(
    *, server: str | None, kubeconfig: str | None, context: str | None, insecure: bool = False
) -> Configuration:
    """The configuration of the client library. Raises Rejected if there is no usable server address.

    `insecure` turns off the verification of certificates; a kubeconfig alone cannot.
    """
    configuration = await _reach(server, kubeconfig, context)
    if insecure:
        log.warning("API server certificate is not verified", server=configuration.host)
        configuration.verify_ssl = False
    elif not configuration.verify_ssl:
        raise Rejected(
            "the kubeconfig has insecure-skip-tls-verify: set certificate-authority-data in it, or pass "
            "--insecure-skip-tls-verify to accept that anyone on the network can read and change requests"
        )
    return configuration


async def _reach(server: str | None, kubeconfig: str | None, context: str | None) -> Configuration:
    if server is not None:
        if not server.startswith(("http://", "https://")):
            raise Rejected(f"cannot reach a cluster: {server!r} is not an http or https URL")
        return Configuration(host=server.rstrip("/"))
    configuration = Configuration()
    location = kubeconfig or KUBE_CONFIG_DEFAULT_LOCATION
    try:
        if kubeconfig or context or _exists(location):
            await _from_kubeconfig(configuration, location, context)
        else:
            load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
    except _UNUSABLE as exc:
        said = " ".join(str(exc).split()).rstrip(".")  # parsers spread messages over several lines
        place = (
            location
            if kubeconfig or context or _exists(location)
            else f"no kubeconfig at {location}, and not in a pod"
        )
        remedy = "set a working one with --kubeconfig or KUBECONFIG, or a server with --server"
        raise Rejected(f"cannot reach a cluster: {place}: {said}; {remedy}") from exc
    return configuration


async def _from_kubeconfig(configuration: Configuration, location: str, context: str | None) -> None:
    if not _exists(location):
        raise Rejected(f"cannot reach a cluster: there is no kubeconfig at {location}")
    loader = await load_kube_config(location, context=context, client_configuration=configuration)
    configuration.refresh_api_key_hook = _Refresh(loader)


def _exists(location: str) -> bool:
    """Whether any of the files exists: KUBECONFIG may name several."""
    return any(Path(place).expanduser().is_file() for place in location.split(ENV_KUBECONFIG_PATH_SEPARATOR))


class _Refresh:
    """Reloads credentials regularly: the library does so only for service accounts.

    While one request reloads them, others use the present token.
    """

    def __init__(self, loader: KubeConfigLoader) -> None:
        self._loader = loader
        self._due = asyncio.get_running_loop().time() + REFRESH_SECONDS

    async def __call__(self, configuration: Configuration) -> None:
        now = asyncio.get_running_loop().time()
        if now < self._due:
            return
        self._due = now + REFRESH_SECONDS
        try:
            await self._loader.load_and_set(configuration)
        except _UNUSABLE as exc:
            raise Retry(f"credentials could not be renewed: {exc}") from exc
