"""Known PodGroups, and which gangs a change concerns."""

from typing import Any

from reconciler.api.objects.changes import Changed, Removed, Replaced
from reconciler.api.objects.gangs import GangKey, GangSource
from reconciler.api.objects.meta import ObjectKey
from reconciler.api.versions.reading import read
from reconciler.state.pods.groups import PodGroups
from tests.tools.gangs import coscheduling_group, pod_group

KUBERNETES = GangKey("default", GangSource.POD_GROUP, "g")
COSCHEDULING = GangKey("default", GangSource.COSCHEDULING, "g")


def changed(raw: dict[str, Any]) -> Changed:
    thing = read(raw)
    return Changed(type(thing).__name__, thing)


def test_groups_of_one_name_in_both_api_groups_are_two():
    groups = PodGroups()
    assert groups.note(changed(pod_group())) == {KUBERNETES}
    assert groups.note(changed(coscheduling_group(least=3))) == {COSCHEDULING}
    found = groups.get(COSCHEDULING)
    assert found is not None
    assert found.rules is not None
    assert found.rules.least == 3


def test_a_change_of_the_status_concerns_no_gang():
    groups = PodGroups()
    groups.note(changed(pod_group()))
    written = {**pod_group(), "status": {"resourceClaimStatuses": [{"name": "c", "resourceClaimName": "x"}]}}
    assert groups.note(changed(written)) == frozenset()


def test_a_listing_drops_groups_of_its_kind_only():
    groups = PodGroups()
    groups.note(changed(pod_group()))
    groups.note(changed(coscheduling_group()))
    assert groups.note(Replaced("PodGroup", (), ())) == {KUBERNETES}
    assert groups.get(COSCHEDULING) is not None
    assert groups.note(Removed("CoschedulingPodGroup", ObjectKey("default", "g"))) == {COSCHEDULING}
    assert groups.get(COSCHEDULING) is None
