"""Resources that kube-scheduler turns into claims where a node does not offer them."""

from reconciler.allocation.placement.placing import backed_resources
from reconciler.api.objects.claims import DeviceClass
from reconciler.api.objects.core import Pod
from reconciler.api.versions.reading import read
from tests.tools.builders import device_class, typed

PREFIX = "deviceclass.resource.kubernetes.io/"


def classes() -> dict[str, DeviceClass]:
    """A class that names the resource it backs, and one that does not."""
    naming = device_class("gpu")
    naming["spec"]["extendedResourceName"] = "example.com/gpu"
    found = [typed(naming), typed(device_class("plain"))]
    return {one.key.name: one for one in found if isinstance(one, DeviceClass)}


def requesting(*resources: str) -> Pod:
    container = {"name": "c", "resources": {"requests": dict.fromkeys(resources, "1")}}
    pod = read(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p", "namespace": "default"},
            "spec": {"containers": [container]},
        }
    )
    assert isinstance(pod, Pod)
    return pod


def test_a_class_backs_the_resource_it_names_and_the_one_named_after_it():
    """EXT-1."""
    pod = requesting("cpu", "example.com/gpu", f"{PREFIX}plain", f"{PREFIX}absent", "example.com/other")
    assert backed_resources(classes(), pod) == {"example.com/gpu", f"{PREFIX}plain"}
