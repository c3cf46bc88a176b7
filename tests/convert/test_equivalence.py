"""What is converted gives every claim the same devices as what it was converted from."""

import random

import pytest

from reconciler.cli.convert import _against
from tests.convert.worlds import (
    conversion,
    device_map,
    devices_given,
    pool_of,
    readable,
    slices_of,
    some_claim,
)


@pytest.mark.parametrize("seed", range(200))
def test_claims_get_the_same_devices_before_and_after(seed: int):
    before = pool_of(seed)
    result = conversion(*before)
    assert result.problems == ()
    after = slices_of(result)
    new_name = device_map(result)
    original = readable(before)
    rng = random.Random(-seed)
    taken: list[str] = []
    for _ in range(6):
        wanted = some_claim(rng)
        expected = devices_given(original, wanted, taken)
        found = devices_given(after, wanted, [new_name.get(name, name) for name in taken])
        if isinstance(expected, list):
            assert found == [new_name.get(name, name) for name in expected]
            taken += expected
        else:
            assert found == expected


@pytest.mark.parametrize("seed", range(60))
def test_a_server_takes_what_is_written(seed: int):
    for made in slices_of(conversion(*pool_of(seed))):
        assert _against(made) == []
