"""Manifests for the tests of commands, short and in YAML as a user writes them."""

CLASS = """\
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec: {selectors: [{cel: {expression: 'device.driver == "gpu.example.com"'}}]}
"""


def gpus(node: str, count: int = 2, *, generation: int = 1, slices: int = 1, name: str = "") -> str:
    devices = ", ".join(f"{{name: gpu-{number}}}" for number in range(count))
    return f"""\
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {{name: {name or node + "-gpus"}}}
spec:
  driver: gpu.example.com
  nodeName: {node}
  pool: {{name: {node}, generation: {generation}, resourceSliceCount: {slices}}}
  devices: [{devices}]
"""


def requests(count: int = 1, device_class: str = "gpu") -> str:
    exactly = f"{{deviceClassName: {device_class}, count: {count}}}"
    return f"{{devices: {{requests: [{{name: gpu, exactly: {exactly}}}]}}}}"


def claim(name: str, count: int = 1, *, device_class: str = "gpu", metadata: str = "") -> str:
    return f"""\
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {{name: {name}, {metadata}}}
spec: {requests(count, device_class)}
"""


def template(name: str, count: int = 1) -> str:
    return f"""\
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {{name: {name}}}
spec: {{metadata: {{labels: {{from: {name}}}}}, spec: {requests(count)}}}
"""


def pod(name: str, *entries: str, spec: str = "", metadata: str = "", status: str = "{}") -> str:
    """Each entry is `name=claim`, or `name:template`."""
    claims = []
    for entry in entries:
        kind = "resourceClaimName" if "=" in entry else "resourceClaimTemplateName"
        key, _, target = entry.replace(":", "=").partition("=")
        claims.append(f"{{name: {key}, {kind}: {target}}}")
    return f"""\
apiVersion: v1
kind: Pod
metadata: {{name: {name}, {metadata}}}
spec: {{resourceClaims: [{", ".join(claims)}], {spec}}}
status: {status}
"""


def node(name: str, **labels: str) -> str:
    pairs = ", ".join(f"{key}: {value!r}" for key, value in labels.items())
    return f"{{apiVersion: v1, kind: Node, metadata: {{name: {name}, labels: {{{pairs}}}}}}}\n"


def together(*documents: str) -> str:
    return "---\n".join(documents)
