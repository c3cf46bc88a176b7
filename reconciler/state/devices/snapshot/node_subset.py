"""Some nodes of a topology, as a mask over its node order. Valid only with that topology."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from kernels.types import Mask


@dataclass(frozen=True, slots=True, eq=False)
class NodeSubset:
    """Candidate nodes. Equal to another subset, or a sequence, with the same names in the same order."""

    order: tuple[str, ...]
    """`Topology.order`"""
    mask: Mask
    """(nodes,) read-only"""
    _hash: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.mask.setflags(write=False)
        object.__setattr__(self, "_hash", hash(self.mask.tobytes()))

    def __iter__(self) -> Iterator[str]:
        return (self.order[at] for at in np.flatnonzero(self.mask).tolist())

    def __len__(self) -> int:
        return int(np.count_nonzero(self.mask))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if isinstance(other, NodeSubset) and self.order is other.order:
            return bool((self.mask == other.mask).all())
        return isinstance(other, NodeSubset | Sequence) and tuple(self) == tuple(other)
