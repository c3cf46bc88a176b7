"""Credentials: what kubernetes-asyncio needs to reach a target, read by its own loaders. Import this late.

On a plain import, the library loads a class for each kind and API of Kubernetes: a thousand modules, 50 MiB
and most of the start of a command. Only its client and its kubeconfig loader are used here: they are imported
without the packages around them. Whoever imports the library later gets all of it.
"""

import asyncio
import sys
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

import structlog

from reconciler.cluster.target import Kubeconfig, Target, without_password
from reconciler.errors import Rejected, Retry

_LIBRARY = "kubernetes_asyncio"


@contextmanager
def _without_packages() -> Iterator[Any]:
    """Have empty modules stand for the packages of the library during the block; the one of its client."""
    found = find_spec(_LIBRARY)
    if found is None or found.origin is None:
        raise ModuleNotFoundError(f"No module named {_LIBRARY!r}", name=_LIBRARY)
    library, client, models = empty = [
        ModuleType(f"{_LIBRARY}{part}") for part in ("", ".client", ".client.models")
    ]
    for module in empty:
        module.__path__ = [str(Path(found.origin).parents[1].joinpath(*module.__name__.split(".")))]
    # For calls that other code makes, and that name a model.
    vars(models)["__getattr__"] = lambda name: getattr(import_module(models.__name__), name)
    vars(client)["models"], vars(library)["client"] = models, client
    before = {module.__name__: sys.modules.get(module.__name__) for module in empty}
    sys.modules.update({module.__name__: module for module in empty})
    try:
        yield client
    finally:
        for name, known in before.items():
            if known is None:
                del sys.modules[name]
            else:
                sys.modules[name] = known


with _without_packages() as _client:
    from kubernetes_asyncio.client.configuration import Configuration

    _client.Configuration = Configuration
    from kubernetes_asyncio.client.api_client import ApiClient

    _client.ApiClient = ApiClient
    from kubernetes_asyncio.config import ConfigException, load_incluster_config
    from kubernetes_asyncio.config.kube_config import KubeConfigLoader

__all__ = ["ApiClient", "configuration_for"]

log = structlog.get_logger()

# The library raises TypeError and AssertionError for values of the wrong type.
_UNUSABLE = (ConfigException, OSError, TypeError, ValueError, AssertionError, KeyError, AttributeError)

REFRESH_SECONDS = 60.0
"""Time between two checks of tokens. Plugins and files renew them minutes before they expire."""


async def configuration_for(target: Target, *, insecure: bool = False) -> Configuration:
    """The configuration of the client library. Raises Rejected if credentials cannot be read.

    `insecure`, or insecure-skip-tls-verify in a kubeconfig, turns off the verification of certificates, with
    a warning, as for kubectl. The account of a pod always verifies: it is Rejected there.
    """
    try:
        urlsplit(target.server).port  # noqa: B018 - raises
    except ValueError as exc:
        raise Rejected(f"cannot reach a cluster: {target.server!r}: {exc}") from exc
    if insecure and target.in_pod:
        raise Rejected(
            f"cannot reach {target.server}: the account of a pod always verifies certificates: remove "
            "--insecure-skip-tls-verify, or use a kubeconfig"
        )
    configuration = await _credentials(target)
    if insecure:
        configuration.verify_ssl = False
    if not configuration.verify_ssl:
        log.warning("API server certificate is not verified", server=without_password(target.server))
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
