"""Whatever the text, a parser reads it or refuses it in the way it says."""

import json
import string
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.allocation.dra.allocate import allocate
from reconciler.api.objects.claims import ResourceClaim
from reconciler.api.objects.plan import Granted
from reconciler.api.versions.reading import read
from reconciler.state.trial import store_of
from tests.tools.examples import examples
from tests.tools.fuzzed_parsers import CORPUS, PARSERS, survives
from tests.tools.mutation_families import FAMILIES, OF_PODS
from tests.tools.mutations import ALONE, GOOD, RULES, decided, mutated, outcome

WORDS = st.sampled_from(
    [
        *"\"'{}[]:,()\\\n.-",
        *("- ", "&a", "*a", "<<", "---\n", "null", "true", "NaN", "1e", "Ki", "9" * 30, "\ud800", "\0"),
        *("\u0301", "\u2028", "metadata", "name", "spec", "kind", "List", "items", "driver", "value"),
        *("apiVersion: resource.k8s.io/v1\n", "device.attributes", "==", "&&", "has(", ".all(x, ", "v1.2.3"),
    ]
)
KEYS = st.sampled_from(
    [
        *("driver", "pool", "name", "devices", "basic", "attributes", "capacity", "consumesCounters", "d"),
        *("counterSet", "counters", "sharedCounters", "includes", "mixins", "deviceMixins", "composite"),
        *("compatibleOnlyWith", "compatibilityGroups", "expression", "requests", "exactly", "selectors"),
        *("schedulingPolicy", "gang", "basic", "minCount", "disruptionMode", "all"),
        *("priority", "resourceClaims", "podGroupTemplates", "compositePodGroupTemplates"),
        *("workloadRef", "podGroupTemplateRef", "workload"),
        *("schedulingConstraints", "topology", "key", "taint", "effect", "deviceSelector", "deviceClassName"),
        *("workload", "resourceClaims"),
        *("firstAvailable", "constraints", "tiers", "partitions", "minor", "consumesCapacityFrom", "value"),
    ]
)
TEXT = st.lists(WORDS, max_size=30).map("".join) | st.text(string.printable, max_size=60)
ATOMS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5) | KEYS
JSON = st.recursive(
    ATOMS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=6), max_leaves=15
)


@pytest.mark.parametrize("name", PARSERS)
def test_texts_that_hurt_once(name: str):
    for text in CORPUS:
        survives(name, text)


@pytest.mark.parametrize("name", PARSERS)
@examples(20)
@given(text=TEXT)
def test_any_text(name: str, text: str):
    survives(name, text)


@pytest.mark.parametrize("name", PARSERS)
@examples(20)
@given(value=JSON)
def test_any_json(name: str, value: object):
    survives(name, json.dumps(value))


# -- Newer fields, broken in any way: no crash, no lost work, and a refusal names the object and the field.
# `make soak` breaks each family of fields many times more.


@pytest.mark.parametrize("name", FAMILIES)
def test_unbroken_objects_get_devices(name: str):
    objects = [read(one) for one in FAMILIES[name].objects]
    wanted = [one for one in objects if isinstance(one, ResourceClaim) and one.allocation is None]
    snapshot = store_of([*map(read, GOOD), *objects], RULES).snapshot()
    assert isinstance(allocate(wanted, snapshot), Granted)


@pytest.mark.parametrize("name", FAMILIES)
def test_broken_objects_are_refused_alone(name: str):
    for seed in range(60):
        outcome(name, seed)


@pytest.mark.parametrize(("name", "wanted"), [("groups", 4), ("taintRules", 2), ("extendedResources", 2)])
def test_broken_manifests_are_refused_alone(name: str, wanted: int):
    assert decided(OF_PODS[name].objects) == f"{wanted} granted"
    for seed in range(25):
        decided(mutated(OF_PODS[name], Random(f"{name} {seed}")))


@pytest.mark.parametrize("name", ALONE)
def test_what_others_write_about_pods_is_refused_or_read(name: str):
    assert len({ALONE[name](seed) for seed in range(40)}) > 1
