"""What a policy may know of a pod and of the room on nodes. Imports nothing that decides."""

from kernels.types import Amounts
from reconciler.api.objects.value import value

UNKNOWN_CORES = 2**40
"""Free thousandths of a CPU where they are not known; more count as so many"""


@value(eq=False)
class PodRoom:
    """What the pod of the claims needs of a node besides devices."""

    cores: int
    """Thousandths of a CPU"""
    free: Amounts
    """(N,) thousandths of a CPU that are free, in the order of `Topology.order`"""
