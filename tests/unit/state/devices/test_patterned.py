"""The columns of a slice of a pattern are those of the same slice without one."""

import json
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reconciler.api.objects.device_patterns import PatternDevices, differing
from reconciler.api.objects.semantics import Semantics
from reconciler.api.objects.slices import ResourceSlice
from reconciler.api.versions import slice_text
from reconciler.api.versions.spec_patterns import SpecPatterns
from reconciler.state.devices.encoding.block import build
from reconciler.state.devices.encoding.parts import Encoder
from reconciler.state.devices.encoding.patterned import block_of
from reconciler.state.devices.encoding.updating import update
from reconciler.state.devices.encoding.vocabulary import Vocabulary
from tests.tools.builders import device, resource_slice

STRINGS = st.sampled_from(["u-0", "u-1", "u-2", "", "1.2.3"])


def slices(values: list[tuple[str, ...]], **more: Any) -> list[ResourceSlice]:
    """Slices whose text was read by patterns; (node, and strings of four attributes) of each."""
    patterns = SpecPatterns(slice_text._spec)
    found = []
    for number, (node, *strings) in enumerate(values):
        devices = [
            device(
                "a", {"uuid": strings[0], "d/uuid": strings[1], "index": 1}, {"m": "1Gi"}, {"s": {"m": 1}}
            ),
            device("b", {"uuid": strings[2], "d/uuid2": "x", "fast": True}, {"m": "2Gi"}, {"s": {"m": 2}}),
            device("c", {"e/uuid": strings[3]}),
        ]
        raw = resource_slice("s", devices, **{"nodeName": node, **more})
        spec = patterns.read(json.dumps(raw["spec"]).encode(), learn=True)
        whole = ResourceSlice.model_validate({"metadata": {"name": f"s-{number}"}, "spec": raw["spec"]})
        found.append(whole.model_copy(update={"spec": spec}))
    return found


ROWS = st.tuples(st.sampled_from(["n-0", "n-1"]), STRINGS, STRINGS, STRINGS, STRINGS)


@given(st.lists(ROWS, min_size=2, max_size=6))
@example([(node, f"u-{node}", "v", "w", "x") for node in ("n-0", "n-1", "", "n-2")])
def test_columns_are_those_of_a_slice_without_a_pattern(rows):
    encoder = Encoder(Vocabulary(), Semantics())
    for source in slices(rows):
        made, plain = block_of(source, encoder), build(_without_pattern(source), encoder)
        assert made.header == plain.header
        assert np.array_equal(made.table, plain.table)
        assert np.array_equal(made.flags, plain.flags)
        assert np.array_equal(made.drawn, plain.drawn)
        assert made.names == plain.names
        assert made.slice is source


@given(st.lists(ROWS, min_size=4, max_size=4))
def test_an_update_reads_the_devices_that_differ(rows):
    encoder = Encoder(Vocabulary(), Semantics())
    sources = slices([("n", *row[1:]) for row in rows])
    for before, now in pairwise(sources):
        plain = _without_pattern(before).spec.devices, _without_pattern(now).spec.devices
        rows_that_differ = [row for row in range(3) if plain[0][row] != plain[1][row]]
        assert differing(before.spec.devices, now.spec.devices) == rows_that_differ
        updated = update(block_of(before, encoder), now, encoder)
        if updated is not None:
            assert np.array_equal(updated.table, block_of(now, encoder).table)


def test_devices_of_a_pattern_behave_as_a_tuple():
    *_, one, other = slices([(f"n-{n}", f"u-{n}", "v", "w", f"x-{n}") for n in range(4)])
    devices, plain = one.spec.devices, tuple(one.spec.devices)
    assert isinstance(devices, PatternDevices)
    assert len(devices) == 3
    assert devices[-1] == plain[2]
    assert devices[1:] == plain[1:]
    assert devices == plain
    assert plain == devices
    assert devices != other.spec.devices
    assert devices != "abc"
    assert one == _without_pattern(one)
    assert one.to_json() == _without_pattern(one).to_json()
    with pytest.raises(IndexError):
        devices[3]


def _without_pattern(source: ResourceSlice) -> ResourceSlice:
    return ResourceSlice.model_validate(source.to_json())
