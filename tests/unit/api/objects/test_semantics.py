"""Releases and feature gates."""

import pytest

from reconciler.api.objects.semantics import (
    BINDING_CONDITIONS,
    DEVICE_STATUS,
    GATES,
    SHARING_AFFINITY,
    TAINTS,
    Semantics,
    with_exclusion_scopes,
    with_gates,
    with_group_modes,
)
from reconciler.errors import Rejected


def test_all_gates_but_previews_are_on_unless_turned_off():
    previews = {name for name, gate in GATES.items() if gate.is_preview}
    assert with_gates("") == GATES.keys() - previews
    assert with_gates(f"{TAINTS}=false") == GATES.keys() - {*previews, TAINTS}
    assert with_gates(f"{SHARING_AFFINITY}=true") == with_gates("") | {SHARING_AFFINITY}
    assert TAINTS in with_gates(f"{TAINTS}=true", lacking=frozenset({TAINTS}))


@pytest.mark.parametrize("text", [f"{TAINTS}=false,{TAINTS}=true", f" {TAINTS}=False , {TAINTS}=TRUE ,"])
def test_the_last_word_on_a_gate_counts(text: str):
    assert TAINTS in with_gates(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Nope=true", "unknown feature gate 'Nope'"),
        (f"{TAINTS}=yes", "write DRADeviceTaints=true"),
        (TAINTS, "write"),
    ],
)
def test_an_unknown_gate_or_value_is_rejected(text: str, reason: str):
    with pytest.raises(Rejected, match=reason):
        with_gates(text)


@pytest.mark.parametrize("off", [BINDING_CONDITIONS, DEVICE_STATUS])
def test_binding_conditions_need_two_gates(off: str):
    assert Semantics().binding_conditions
    assert not Semantics(gates=with_gates(f"{off}=false")).binding_conditions


def test_only_the_older_release_is_old():
    assert Semantics("1.36").old
    assert not Semantics("1.37").old


def test_group_modes_are_per_driver_with_a_default():
    assert Semantics().group_mode("d", states=False) == "kep-5963"
    rules = Semantics(group_modes=with_group_modes(["d=pairwise", "*=pairwise", "e=kep-5963"]))
    assert [rules.group_mode(driver, states=True) for driver in "def"] == ["pairwise", "kep-5963", "pairwise"]
    assert hash(rules) == hash(
        Semantics(group_modes=with_group_modes(["e=kep-5963", "d=pairwise", "*=pairwise"]))
    )


@pytest.mark.parametrize("text", ["pairwise", "=pairwise", "d=", "d=none"])
def test_a_group_mode_that_is_not_known_is_rejected(text: str):
    with pytest.raises(Rejected, match="DRIVER=kep-5963"):
        with_group_modes([text])


@pytest.mark.parametrize("text", ["pool", "=pool", "d=", "d=node"])
def test_an_exclusion_scope_that_is_not_known_is_rejected(text: str):
    with pytest.raises(Rejected, match="DRIVER=pool"):
        with_exclusion_scopes([text])


def test_exclusion_scopes_are_per_driver_with_a_default():
    rules = Semantics(exclusion_scopes=with_exclusion_scopes(["*=pool", "e=counter-set"]))
    assert [rules.exclusion_scope(driver) for driver in "de"] == ["pool", "counter-set"]
    assert Semantics().exclusion_scope("d") == "counter-set"
