"""What the audit reports about exclusion and group modes, once each."""

from typing import Any

from reconciler.api.objects.changes import Changed
from reconciler.control.audit import ExclusionAudit
from reconciler.control.decisions.allocating import ExclusionViolated, GroupModeChanged
from reconciler.control.decisions.declaration import Decision
from tests.tools.builders import Object, device, held, hold, node, resource_slice, store, typed


def pool(*content: Object) -> Object:
    made = resource_slice("s", content, nodeName="n")
    made["spec"]["sharedCounters"] = [{"name": "g", "counters": {"m": {"value": "9"}}}]
    return made


def grouped(name: str, *groups: str, **fields: Any) -> Object:
    made = device(name, draws={"g": {"m": 1}}, **fields)
    made["consumesCounters"][0]["compatibilityGroups"] = list(groups)
    return made


def test_a_change_of_the_group_mode_while_devices_are_held_is_reported_and_frees_nothing():
    """The first expression makes the driver pairwise; without it, the two held devices are at odds."""
    stating = grouped("z", compatibleOnlyWith={"expression": "true"})
    with_expression, without = (pool(grouped("x", "mig"), grouped("y"), *more) for more in ((stating,), ()))
    found: list[Decision] = []
    audit = ExclusionAudit(found.append)
    kept = store(node("n"), with_expression, held("h", hold("x")), held("i", hold("y")))
    audit.check(kept.snapshot())
    assert found == []
    kept.apply(Changed("ResourceSlice", typed(without)))
    audit.check(kept.snapshot())
    changed, at_odds = found
    assert changed == GroupModeChanged("d", "pairwise", "kep-5963", 2)
    assert isinstance(at_odds, ExclusionViolated)
    assert kept.snapshot().occupancy.held.sum() == 2
    kept.apply(Changed("ResourceSlice", typed(with_expression)))
    audit.check(kept.snapshot())
    assert found[2:] == [GroupModeChanged("d", "kep-5963", "pairwise", 2)]


def test_a_change_of_the_group_mode_of_free_devices_is_not_reported():
    found: list[Decision] = []
    audit = ExclusionAudit(found.append)
    kept = store(node("n"), pool(grouped("x", "mig")))
    audit.check(kept.snapshot())
    stating = grouped("x", "mig", compatibleOnlyWith={"expression": "true"})
    kept.apply(Changed("ResourceSlice", typed(pool(stating))))
    audit.check(kept.snapshot())
    assert found == []
