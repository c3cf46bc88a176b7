"""Names in Koordinator's objects. Source: KOO-2."""

PLUGIN = "koordinator"
"""The name of the plugin"""

DOMAIN = "scheduling.koordinator.sh/"
NODE_DOMAIN = "node.koordinator.sh/"

GPU, RDMA, FPGA = "gpu", "rdma", "fpga"
TYPES = (GPU, RDMA, FPGA)
"""Device types, in the order of decisions and reports."""

NVIDIA_GPU = "nvidia.com/gpu"
AMD_GPU = "amd.com/gpu"
HYGON_DCU = "dcu.com/gpu"
KOORD_GPU = "koordinator.sh/gpu"
GPU_SHARED = "koordinator.sh/gpu.shared"
GPU_CORE = "koordinator.sh/gpu-core"
GPU_MEMORY = "koordinator.sh/gpu-memory"
GPU_MEMORY_RATIO = "koordinator.sh/gpu-memory-ratio"
NPU_CORE = "huawei.com/npu-core"
NPU_CPU = "huawei.com/npu-cpu"
NPU_DVPP = "huawei.com/npu-dvpp"
KOORD_RDMA = "koordinator.sh/rdma"
KOORD_FPGA = "koordinator.sh/fpga"

WHOLE_GPU = frozenset({NVIDIA_GPU, AMD_GPU, HYGON_DCU})
"""Resource names of vendors: their amount is a number of GPUs."""

TYPE_OF = {
    **dict.fromkeys(
        (
            *sorted(WHOLE_GPU),
            KOORD_GPU,
            GPU_SHARED,
            GPU_CORE,
            GPU_MEMORY,
            GPU_MEMORY_RATIO,
            NPU_CORE,
            NPU_CPU,
            NPU_DVPP,
        ),
        GPU,
    ),
    KOORD_RDMA: RDMA,
    KOORD_FPGA: FPGA,
}
"""Resource name -> device type. Other resources are ignored."""

OLD_DOMAIN = "kubernetes.io/"
CURRENT_NAME = {
    OLD_DOMAIN + name.partition("/")[2]: name for name in TYPE_OF if name.startswith("koordinator.sh/")
}
"""Old name -> current name, for pods and recorded allocations."""

JOINT_ALLOCATE = DOMAIN + "device-joint-allocate"
ALLOCATE_HINT = DOMAIN + "device-allocate-hint"
PARTITION_SPEC = DOMAIN + "gpu-partition-spec"
PARTITIONS = DOMAIN + "gpu-partitions"
ALLOCATED = DOMAIN + "device-allocated"
BIND_TIMESTAMP = DOMAIN + "bind-timestamp"
GPU_MINORS = DOMAIN + "gpu-minors"

PARTITION_POLICY = NODE_DOMAIN + "gpu-partition-policy"
GPU_VENDOR = NODE_DOMAIN + "gpu-vendor"
GPU_MODEL = NODE_DOMAIN + "gpu-model"
WELL_PLANNED = NODE_DOMAIN + "secondary-device-well-planned"
ISOLATION_PROVIDER = "koordinator.sh/gpu-isolation-provider"
