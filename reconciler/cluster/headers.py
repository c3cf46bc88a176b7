"""The headers of a response, which are decoded when somebody looks at them. Of most responses nobody does."""

from collections.abc import Iterator, Mapping

from multidict import CIMultiDict


class Headers(Mapping[str, str]):
    """Finds headers in any upper or lower case; of one that came several times, the first."""

    def __init__(self) -> None:
        self._raw: list[tuple[bytes, bytes]] = []
        self._decoded: CIMultiDict[str] | None = None

    def add(self, name: bytes, value: bytes) -> None:
        """Add what came. Nobody has looked at any header yet."""
        self._raw.append((name, value))

    @property
    def framed(self) -> bool:
        """Whether they say where the body ends. Decodes nothing."""
        return any(name.lower() in (b"content-length", b"transfer-encoding") for name, _ in self._raw)

    def __getitem__(self, name: str) -> str:
        return self._all()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def _all(self) -> CIMultiDict[str]:
        if self._decoded is None:
            self._decoded = CIMultiDict(
                (name.decode("latin-1"), value.decode("latin-1")) for name, value in self._raw
            )
        return self._decoded
