"""Label keys of affinity and spread, as the API server adds them to selectors."""

from typing import Any

from reconciler.api.manifests.bundle import bundle
from reconciler.api.manifests.documents import of_text
from reconciler.api.objects.core import Pod
from reconciler.api.validation.pods import with_label_keys
from reconciler.api.validation.served_kinds import POD
from tests.tools.front_ends import served
from tests.tools.pod_scenarios import apart, labelled, near, spread, term
from tests.tools.scenario import asking
from tests.tools.small_fleet import Object

KEYS = {"matchLabelKeys": ["v", "none"], "mismatchLabelKeys": ["tenant"]}


def pod() -> Object:
    """A pod with keys wherever they may be, and terms without a selector."""
    of_pods = {**near(term("zone", **KEYS), {"topologyKey": "zone", **KEYS})["affinity"]}
    of_pods |= apart(term("zone", **KEYS))["affinity"]
    rest = spread("zone", matchLabelKeys=["v"])
    return labelled(asking("p", affinity=of_pods, **rest), v="1", tenant="x")


def expressions(stored: Any) -> list[Any]:
    """The expressions of all selectors, in order; None for a term without a selector."""
    spec, required = stored["spec"], "requiredDuringSchedulingIgnoredDuringExecution"
    terms = [*spec["affinity"]["podAffinity"][required], *spec["affinity"]["podAntiAffinity"][required]]
    terms += spec["topologySpreadConstraints"]
    return [one["labelSelector"].get("matchExpressions") if "labelSelector" in one else None for one in terms]


OWN = {"key": "v", "operator": "In", "values": ["1"]}
OTHER = {"key": "tenant", "operator": "NotIn", "values": ["x"]}
ADDED = [[OWN, OTHER], None, [OWN, OTHER], [OWN]]


def test_the_server_adds_the_keys_of_new_pods_once():
    cluster = served([pod()])
    stored = cluster.pod("p")
    assert expressions(stored) == ADDED
    cluster.api.store.put(POD, "default/p", stored)
    assert expressions(cluster.pod("p")) == ADDED


def test_manifests_are_read_as_the_server_would_store_them():
    given = pod()
    assert expressions(with_label_keys(given)) == ADDED
    assert expressions(given) == [None, None, None, None]
    stored = {**given, "metadata": {**given["metadata"], "uid": "u"}}
    assert with_label_keys(stored) is stored
    plain = asking("q")
    assert with_label_keys(plain) is plain


def test_many_files_may_repeat_their_namespace():
    text = "---\n".join(
        f"apiVersion: v1\nkind: Namespace\nmetadata: {{name: n, labels: {{team: '{team}'}}}}\n"
        for team in "xy"
    )
    found = bundle(of_text("f.yaml", text))
    assert (found.refused, found.of(Pod), found.size) == ((), (), 1)
