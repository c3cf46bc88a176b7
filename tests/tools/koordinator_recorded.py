"""What is known of the recorded cases: which are not judged, and which the proposals decide otherwise."""

from tests.conformance.koordinator import NUMA_NODES, OUT_OF_SCOPE
from tests.conformance.outcome import Outcome

SKIPPED = [
    Outcome(name, skipped=why)
    for why, names in [
        (
            OUT_OF_SCOPE["admission-mutate"],
            [
                "056-admission-mutating-gpu-share-when-gpumemoryratio-small-than-100",
                "057-admission-mutating-gpu-share-when-gpumemoryratio-is-multiple-of-100",
                "058-admission-mutating-gpu",
            ],
        ),
        (
            OUT_OF_SCOPE["numa-hints"],
            [
                "915-numa-hints-generate-gpu-rdma-hints",
                "916-numa-hints-generate-gpu-rdma-hints-but-large-gpu-requests",
                "917-numa-hints-generate-gpu-hints-with-assigned-devices",
                "918-numa-hints-generate-fpga-empty-hints",
                "919-numa-hints-generate-2-rdma-hints",
                "920-numa-hints-generate-rdma-2-vf-hints",
                "921-numa-hints-generate-rdma-4-vf-hints",
                "922-numa-hints-generate-joint-allocate-gpu-rdma-hints",
            ],
        ),
        (
            NUMA_NODES,
            [
                "923-numa-allocate-allocate-gpu-rdma-by-affinity",
                "925-numa-allocate-generate-2-rdma-hints",
                "926-numa-allocate-generate-rdma-2-vf-hints",
                "927-numa-allocate-generate-rdma-4-vf-hints",
                "928-numa-allocate-generate-joint-allocate-gpu-rdma-hints",
            ],
        ),
        (OUT_OF_SCOPE["numa-hints"], ["929-numa-hints-designated"]),
    ]
    for name in names
]

EXCLUSIVE = "exclusivePolicy: PCIeLevel is exclusivity at the PCIe level, so no other holder may be there"

DIFFERENCES = {
    "508-excl-allocate-3-gpu-and-2-vf-with-assigned-devices": EXCLUSIVE,
    "700-topo-allocate-1-gpu-and-1-vf-with-assigned-devices-topology-scope-binp": EXCLUSIVE,
    "705-shared-allocate-1-gpu-and-1-vf-with-assigned-devices-topology-scope-bi": EXCLUSIVE,
}
"""Cases that come out otherwise by the proposals, with what these say."""
