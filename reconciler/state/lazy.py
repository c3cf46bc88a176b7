"""Objects that are made when they are asked for: of many, only what they are made of is kept."""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar, overload

S = TypeVar("S")
T = TypeVar("T")


class Lazy(Sequence[T], Generic[S, T]):
    """Objects by what they are made of. Any thread may ask for them, if none of that changes."""

    def __init__(self, sources: Sequence[S], make: Callable[[S], T]) -> None:
        self._sources = sources
        self._make = make

    def __len__(self) -> int:
        return len(self._sources)

    @overload
    def __getitem__(self, at: int) -> T: ...
    @overload
    def __getitem__(self, at: slice) -> "Lazy[S, T]": ...
    def __getitem__(self, at: int | slice) -> "T | Lazy[S, T]":
        if isinstance(at, slice):
            return Lazy(self._sources[at], self._make)
        return self._make(self._sources[at])
