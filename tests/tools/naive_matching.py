"""Demands at places and things for them, by trying every choice of things."""

from collections.abc import Sequence
from itertools import product

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from kernels.matching import Supply


def met(supply: Supply, demands: Sequence[tuple[int, int]]) -> bool:
    """Whether all demands, each a type and a place, can have things."""
    pairs = set(zip(supply.things.tolist(), supply.places.tolist(), strict=True))
    wanted: list[tuple[int, list[int]]] = []
    for kind in dict.fromkeys(kind for kind, _ in demands):
        places = [place for other, place in demands if other == kind]
        if supply.joint[kind]:
            if not all(supply.spared[kind, place] for place in places):
                wanted.append((kind, places))
        else:
            wanted += [(kind, [place]) for place in places if not supply.spared[kind, place]]
    return any(
        len(set(chosen)) == len(chosen)
        and all(
            supply.suits[kind, thing] and all((thing, place) in pairs for place in places)
            for thing, (kind, places) in zip(chosen, wanted, strict=True)
        )
        for chosen in product(range(supply.suits.shape[1]), repeat=len(wanted))
    )


@st.composite
def supplies(draw: st.DrawFn, places: int) -> Supply:
    """Up to three types of demands, and four things."""
    types, things = draw(st.integers(1, 3)), draw(st.integers(0, 4))
    reach = draw(arrays(np.bool_, (things, places)))
    at = np.nonzero(reach)
    return Supply(
        draw(arrays(np.bool_, (types, things), elements=st.sampled_from([True, True, False]))),
        at[0],
        at[1],
        draw(arrays(np.bool_, (types, places), elements=st.sampled_from([False, False, True]))),
        tuple(draw(st.booleans()) for _ in range(types)),
    )
