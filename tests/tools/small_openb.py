"""A trace in the form of openb: two nodes, five pods, and one order in which three of them arrive."""

from pathlib import Path

import numpy as np

NODES = """sn,cpu_milli,memory_mib,gpu,model
a,8000,1000,2,T4
b,8000,1000,1,A10
"""
PODS = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec
p0,1000,100,1,500,
p1,1000,100,2,1000,T4
p2,1000,100,1,500,A10|T4
p3,1000,100,0,0,
p4,1000,100,1,1000,A10
"""
PUBLISHED = (
    "workload,sc_policy,tune,seed,total_gpus,100,130\nopenb_pod_list_default,06-FGD,1.3,42,3,90.5,91\n"
)


def write_openb(folder: Path) -> None:
    """Write the files of the trace, and the arrival order as `orders.npz`."""
    (folder / "openb_node_list_gpu_node.csv").write_text(NODES)
    (folder / "openb_pod_list_default.csv").write_text(PODS)
    (folder / "expected_results").mkdir()
    (folder / "expected_results" / "analysis_allo_discrete.csv").write_text(PUBLISHED)
    orders = {"default/42/rank": np.array([1, 0]), "default/42/order": np.array([0, 3, 1])}
    np.savez(folder / "orders.npz", **orders)  # type: ignore[arg-type]
