"""Other clients of Kubernetes, where they are installed, work with the embedded server."""

import asyncio
import os
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from reconciler.api.validation.served_kinds import CLAIM, CONFIG_MAP, NODE, POD
from reconciler.embedded import ApiServer, run_controllers, serve
from tests.tools.examples import in_soak
from tests.tools.http_servers import write_kubeconfig
from tests.tools.patience import PATIENCE

pytestmark = pytest.mark.loopback

OFFICIAL = """
from kubernetes import client, watch
api = client.ApiClient(client.Configuration(host=url))
core, dra = client.CoreV1Api(api), client.ResourceV1Api(api)
made = {"metadata": {"name": "m"}, "data": {"a": "b"}}
core.create_namespaced_config_map("default", made)
core.patch_namespaced_config_map("m", "default", {"data": {"a": "c"}})
assert [one.data for one in core.list_namespaced_config_map("default").items] == [{"a": "c"}]
for event in watch.Watch().stream(core.list_namespaced_config_map, "default", timeout_seconds=300):
    assert (event["type"], event["object"].metadata.name) == ("ADDED", "m")
    break
core.delete_namespaced_config_map("m", "default")
claim = {"metadata": {"name": "c"}, "spec": {"devices": {}}}
assert dra.create_namespaced_resource_claim("default", claim).metadata.name == "c"
assert [pod.status.phase for pod in core.list_namespaced_pod("default").items] == ["Running"]
"""

ASYNCIO = """
import asyncio
from kubernetes_asyncio import client, watch
async def main():
    async with client.ApiClient(client.Configuration(host=url)) as api:
        core, dra = client.CoreV1Api(api), client.ResourceV1Api(api)
        await core.create_namespaced_config_map("default", {"metadata": {"name": "m"}, "data": {"a": "b"}})
        await core.patch_namespaced_config_map("m", "default", {"data": {"a": "c"}})
        assert [one.data for one in (await core.list_namespaced_config_map("default")).items] == [{"a": "c"}]
        async with watch.Watch().stream(core.list_namespaced_config_map, "default") as events:
            async for event in events:
                assert (event["type"], event["object"].metadata.name) == ("ADDED", "m")
                break
        await core.delete_namespaced_config_map("m", "default")
        claim = {"metadata": {"name": "c"}, "spec": {"devices": {}}}
        assert (await dra.create_namespaced_resource_claim("default", claim)).metadata.name == "c"
        assert [pod.status.phase for pod in (await core.list_namespaced_pod("default")).items] == ["Running"]
asyncio.run(main())
"""

KR8S = """
import kr8s
from kr8s.objects import ConfigMap, new_class
api = kr8s.api(kubeconfig=kubeconfig)
made = ConfigMap({"metadata": {"name": "m", "namespace": "default"}, "data": {"a": "b"}}, api=api)
made.create()
made.patch({"data": {"a": "c"}})
assert [one.data for one in api.get("configmaps", namespace="default")] == [{"a": "c"}]
for kind, one in api.watch("configmaps", namespace="default"):
    assert (kind, one.name) == ("ADDED", "m")
    break
made.delete()
Claim = new_class("ResourceClaim", version="resource.k8s.io/v1", namespaced=True)
Claim({"metadata": {"name": "c", "namespace": "default"}, "spec": {"devices": {}}}, api=api).create()
assert [pod.status.phase for pod in api.get("pods", namespace="default")] == ["Running"]
"""

LIGHTKUBE = """
from lightkube import Client, KubeConfig
from lightkube.models.core_v1 import *
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import ConfigMap, Pod
from lightkube.resources.resource_v1 import ResourceClaim
client = Client(config=KubeConfig.from_file(kubeconfig), namespace="default", trust_env=False)
client.create(ConfigMap(metadata=ObjectMeta(name="m", namespace="default"), data={"a": "b"}))
client.patch(ConfigMap, "m", {"data": {"a": "c"}})
assert [one.data for one in client.list(ConfigMap)] == [{"a": "c"}]
for kind, one in client.watch(ConfigMap):
    assert (kind, one.metadata.name) == ("ADDED", "m")
    break
client.delete(ConfigMap, "m")
claim = {"metadata": {"name": "c", "namespace": "default"}, "spec": {"devices": {}}}
client.create(ResourceClaim.from_dict(claim))
assert [pod.status.phase for pod in client.list(Pod)] == ["Running"]
"""

KOPF = """
import asyncio, kopf
done = asyncio.Event()
@kopf.on.login()
def login(**_):
    return kopf.ConnectionInfo(server=url)
@kopf.on.create("configmaps")
def noticed(name, patch, **_):
    patch.metadata.annotations["seen"] = name
@kopf.on.event("configmaps")
def shown(meta, **_):
    if meta.annotations.get("seen") == "m":
        done.set()
async def main():
    import aiohttp
    stop = asyncio.Event()
    operator = asyncio.create_task(kopf.operator(standalone=True, namespace="default", stop_flag=stop))
    async with aiohttp.ClientSession() as session:
        where = f"{url}/api/v1/namespaces/default/configmaps"
        await session.post(where, json={"metadata": {"name": "m"}})
        await done.wait()
        stop.set()
        await operator
        async with session.delete(f"{where}/m") as answer:
            assert answer.status == 200
        claims = f"{url}/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
        await session.post(claims, json={"metadata": {"name": "c"}, "spec": {"devices": {}}})
asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("package", "script"),
    [
        ("kubernetes", OFFICIAL),
        pytest.param("kubernetes_asyncio", ASYNCIO, marks=in_soak),  # what we ask with, in all other tests
        ("kr8s", KR8S),
        ("lightkube", LIGHTKUBE),
        ("kopf", KOPF),
    ],
)
async def test_a_client_creates_patches_lists_watches_and_deletes(tmp_path: Path, package: str, script: str):
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    api = ApiServer()
    api.create(NODE, "", {"metadata": {"name": "node-1"}})
    container = {"name": "main", "image": "busybox"}
    api.create(POD, "default", {"metadata": {"name": "p"}, "spec": {"containers": [container]}})
    async with run_controllers(api), serve(api) as server:
        config = write_kubeconfig(tmp_path / "config", {"server": server}, me={"token": "t"})
        given = f"url, kubeconfig = {server!r}, {config!r}\n"
        # httpx, which kr8s asks with, refuses a file without certificates.
        environment = {name: value for name, value in os.environ.items() if name != "SSL_CERT_FILE"}
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", given + script, stderr=asyncio.subprocess.PIPE, env=environment
        )
        async with asyncio.timeout(PATIENCE):
            _, said = await process.communicate()
    assert process.returncode == 0, said.decode()
    assert len(api.store[CONFIG_MAP]) == 0
    assert len(list(api.store[CLAIM].scan(""))) == 1
