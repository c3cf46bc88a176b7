"""Services, which are stored and shown, and the subresources of pods that need a kubelet."""

import pytest

from reconciler.embedded import ApiServer
from tests.tools.driving import PODS, call, causes, ok, pod, refused

SERVICES = "/api/v1/namespaces/default/services"


def service(**spec):
    return {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}], **spec}}


def test_a_service_has_a_type_and_protocols():
    spec = ok(ApiServer(), "POST", SERVICES, service())["spec"]
    assert spec == {"type": "ClusterIP", "ports": [{"port": 80, "protocol": "TCP"}]}


def test_the_columns_of_services():
    api = ApiServer()
    ok(
        api,
        "POST",
        SERVICES,
        service(clusterIP="None", ports=[{"port": 80}, {"port": 53, "protocol": "UDP"}]),
    )
    table = ok(api, "GET", SERVICES, accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    assert table["rows"][0]["cells"][:5] == ["s", "ClusterIP", "None", "<none>", "80/TCP,53/UDP"]


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"ports": []}, "spec.ports"),
        ({"ports": [{"port": 0}]}, "spec.ports[0].port"),
        ({"ports": [{"port": 80, "protocol": "x"}]}, "spec.ports[0].protocol"),
        ({"type": "x"}, "spec.type"),
    ],
)
def test_a_service_that_is_wrong(spec, field):
    assert [where for where, _ in causes(ApiServer(), "POST", SERVICES, service(**spec))] == [field]


@pytest.mark.parametrize("spec", [{"clusterIP": "None"}, {"type": "ExternalName", "externalName": "a.b"}])
def test_services_that_need_no_ports(spec):
    ok(ApiServer(), "POST", SERVICES, service(ports=[], **spec))


@pytest.mark.parametrize("part", ["log", "exec", "attach", "portforward", "proxy", "ephemeralcontainers"])
def test_what_needs_a_kubelet_says_that_it_is_not_served(part):
    api = ApiServer()
    assert refused(api, "GET", f"{PODS}/p/{part}") == (404, "NotFound")
    ok(api, "POST", PODS, pod())
    code, body = call(api, "GET", f"{PODS}/p/{part}")
    assert (code, body["message"]) == (
        501,
        f"pods/{part} is not served: no pod has real containers here",
    )
