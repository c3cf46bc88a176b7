"""Address of the server and credentials: from a URL, a kubeconfig, or a service account."""

import asyncio
from collections.abc import Awaitable

import structlog

from reconciler.cluster.client_library import (
    ConfigException,
    Configuration,
    KubeConfigLoader,
    load_incluster_config,
)
from reconciler.cluster.target import Kubeconfig, Target, without_password
from reconciler.errors import Rejected, Retry

log = structlog.get_logger()

# The library raises TypeError and AssertionError for values of the wrong type.
_UNUSABLE = (ConfigException, OSError, TypeError, ValueError, AssertionError, KeyError, AttributeError)

REFRESH_SECONDS = 60.0
"""Time between two checks of tokens. Plugins and files renew them minutes before they expire."""


async def configuration_for(target: Target, *, insecure: bool = False) -> Configuration:
    """The configuration of the client library. Raises Rejected if credentials cannot be read.

    `insecure` turns off the verification of certificates; a kubeconfig alone cannot.
    """
    configuration = await _credentials(target)
    if insecure:
        log.warning("API server certificate is not verified", server=without_password(target.server))
        configuration.verify_ssl = False
    elif not configuration.verify_ssl:
        raise Rejected(
            "the kubeconfig has insecure-skip-tls-verify: set certificate-authority-data in it, or pass "
            "--insecure-skip-tls-verify to accept that anyone on the network can read and change requests"
        )
    return configuration


async def _credentials(target: Target) -> Configuration:
    configuration = Configuration(host=target.server)
    try:
        if target.kubeconfig is not None:
            await _from_kubeconfig(configuration, target.kubeconfig, target.context)
        elif target.in_pod:
            load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
    except _UNUSABLE as exc:
        said = " ".join(str(exc).split()).rstrip(".")  # plugins write several lines
        raise Rejected(f"cannot reach a cluster: {target}: {said}") from exc
    return configuration


async def _from_kubeconfig(configuration: Configuration, kubeconfig: Kubeconfig, context: str) -> None:
    loader = KubeConfigLoader(
        kubeconfig.value, context, config_base_path="", config_persister=kubeconfig.save
    )
    await loader.load_and_set(configuration)
    configuration.refresh_api_key_hook = _Refresh(loader)


class _Refresh:
    """Reloads credentials regularly: the library does so only for service accounts.

    While one request reloads them, others use the present token.
    """

    def __init__(self, loader: KubeConfigLoader) -> None:
        self._loader = loader
        self._due = asyncio.get_running_loop().time() + REFRESH_SECONDS

    def __call__(self, configuration: Configuration) -> Awaitable[None] | None:
        """None while nothing is due, as for nearly all requests."""
        now = asyncio.get_running_loop().time()
        if now < self._due:
            return None
        self._due = now + REFRESH_SECONDS
        return self._reload(configuration)

    async def _reload(self, configuration: Configuration) -> None:
        try:
            await self._loader.load_and_set(configuration)
        except _UNUSABLE as exc:
            raise Retry(f"credentials could not be renewed: {exc}") from exc
