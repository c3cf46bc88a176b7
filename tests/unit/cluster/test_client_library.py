"""What is not used of the client library is not loaded, and is there for whoever asks."""

import subprocess
import sys

SCRIPT = """
import sys
from reconciler.cluster.credentials import ApiClient
models = "kubernetes_asyncio.client.models"
assert not any(name.startswith((models + ".", "kubernetes_asyncio.client.api.")) for name in sys.modules)
assert "kubernetes_validate" not in sys.modules
import kubernetes_asyncio
from kubernetes_asyncio import client
from kubernetes_asyncio.client import CoreV1Api
from kubernetes_asyncio.client.models import V1Pod
assert client is kubernetes_asyncio.client is sys.modules["kubernetes_asyncio.client"]
assert client.ApiClient is ApiClient and client.V1Pod is V1Pod is client.models.V1Pod
assert CoreV1Api.__module__ == "kubernetes_asyncio.client.api.core_v1_api"
assert not hasattr(client, "V1Pot") and not hasattr(client.models, "V1Pot")
print("ok")
"""


def test_names_that_are_unused_are_loaded_when_they_are_asked_for():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("ok\n", "")
