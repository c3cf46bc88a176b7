"""Who uses devices alone, and which others nobody else can get."""

from reconciler.api.objects.meta import ObjectKey
from reconciler.plugins.koordinator.annotations import DEVICE_LEVEL, PCIE_LEVEL
from reconciler.plugins.koordinator.holdings import HeldAlone, exclusive_use
from tests.tools.koordinator_builders import gpu, holding, machine, nic

FIRST, SECOND = (0, "s0"), (0, "s1")
ON = machine(gpu(0, FIRST), gpu(1, FIRST), gpu(2, SECOND), nic(0, FIRST), name="n")
ALONE, OTHER = ObjectKey("default", "alone"), ObjectKey("default", "other")


def test_alone_on_a_device_locks_out_no_other_device():
    held = holding(gpus=[0], share=50, hints={"gpu": {"exclusivePolicy": DEVICE_LEVEL}}, by="alone")
    (use,) = exclusive_use(ON, held)
    assert (use.node, use.kind, use.locked_out) == ("n", "gpu", ())
    assert use.held == (HeldAlone(0, DEVICE_LEVEL, (ALONE,)),)


def test_alone_on_a_switch_locks_out_the_devices_of_its_type_there():
    held = holding(gpus=[1], nics=[0], hints={"gpu": {"exclusivePolicy": PCIE_LEVEL}}, by="alone")
    held = holding(gpus=[0, 2], share=50, by="other", into=held)
    (use,) = exclusive_use(ON, held)
    assert use.held == (HeldAlone(1, PCIE_LEVEL, (ALONE,)),)
    assert use.locked_out == (0,)


def test_a_device_of_several_pods_names_all():
    held = holding(gpus=[2], share=50, hints={"gpu": {"exclusivePolicy": DEVICE_LEVEL}}, by="alone")
    held = holding(gpus=[2], share=50, by="other", into=held)
    (use,) = exclusive_use(ON, held)
    assert use.held[0].pods == (ALONE, OTHER)


def test_without_exclusive_use_there_is_nothing_to_show():
    assert list(exclusive_use(ON, holding(gpus=[0, 1], nics=[0]))) == []
