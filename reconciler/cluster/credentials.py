"""Where the server is and how we prove who we are: a plain URL, a kubeconfig, or a service account."""

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

# The library meets a file that is no map with a TypeError, and reads it by recursion.
_UNUSABLE = (ConfigException, OSError, yaml.YAMLError, TypeError, ValueError, RecursionError)

REFRESH_SECONDS = 60.0
"""How often tokens are looked at again. Plugins and files renew theirs minutes before they expire."""


async def configuration_for(
    *, server: str | None, kubeconfig: str | None, context: str | None, insecure: bool = False
) -> Configuration:
    """The client library's configuration. Raises Rejected when nothing says how to reach a server.

    With `insecure` certificates are not verified; a kubeconfig alone does not bring that about.
    """
    configuration = await _reach(server, kubeconfig, context)
    if insecure:
        log.warning("API server certificate is not verified", server=configuration.host)
        configuration.verify_ssl = False
    elif not configuration.verify_ssl:
        raise Rejected(
            "the kubeconfig says insecure-skip-tls-verify: name the authority in certificate-authority-data, "
            "or say --insecure-skip-tls-verify if anybody in between may read and change everything"
        )
    return configuration


async def _reach(server: str | None, kubeconfig: str | None, context: str | None) -> Configuration:
    if server is not None:
        if not server.startswith(("http://", "https://")):
            raise Rejected(f"no way to reach a cluster: {server!r} is no http or https URL")
        return Configuration(host=server.rstrip("/"))
    configuration = Configuration()
    location = kubeconfig or KUBE_CONFIG_DEFAULT_LOCATION
    try:
        if kubeconfig or context or _exists(location):
            await _from_kubeconfig(configuration, location, context)
        else:
            load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
    except _UNUSABLE as exc:
        said = " ".join(str(exc).split()).rstrip(".")  # a parser draws its complaint over several lines
        place = (
            location if kubeconfig or context or _exists(location) else f"no kubeconfig at {location}, no pod"
        )
        remedy = "name one that works with --kubeconfig or KUBECONFIG, or a server with --server"
        raise Rejected(f"no way to reach a cluster: {place}: {said}; {remedy}") from exc
    return configuration


async def _from_kubeconfig(configuration: Configuration, location: str, context: str | None) -> None:
    if not _exists(location):
        raise Rejected(f"no way to reach a cluster: there is no kubeconfig at {location}")
    loader = await load_kube_config(location, context=context, client_configuration=configuration)
    configuration.refresh_api_key_hook = _Refresh(loader)


def _exists(location: str) -> bool:
    """Whether there is a file at any of the places: KUBECONFIG may name several."""
    return any(Path(place).expanduser().is_file() for place in location.split(ENV_KUBECONFIG_PATH_SEPARATOR))


class _Refresh:
    """Loads credentials again from time to time: the library does so for service accounts only.

    While one request does, others go on with the token there is.
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
