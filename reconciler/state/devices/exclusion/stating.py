"""The drivers whose devices say `compatibleOnlyWith`: their groups are compared pairwise (GRP-12)."""

from collections import Counter
from collections.abc import Iterator


class StatingDrivers:
    """Follows the slices whose devices have expressions, also those of pools that other shards own."""

    def __init__(self) -> None:
        self._driver_of: dict[str, str] = {}
        """Slice -> its driver; only slices with expressions"""
        self._slices: Counter[str] = Counter()

    def __contains__(self, driver: str) -> bool:
        return self._slices[driver] > 0

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Slices with expressions, and their drivers."""
        return iter(self._driver_of.items())

    def note(self, name: str, driver: str) -> set[str]:
        """Note the driver of a slice with expressions; empty if it has none, or no longer exists.

        Returns the drivers that now have such slices but did not before, or the other way round.
        """
        before = self._driver_of.pop(name, "")
        if before == driver:
            if driver:
                self._driver_of[name] = driver
            return set()
        changed: set[str] = set()
        if before:
            self._slices[before] -= 1
            if not self._slices[before]:
                del self._slices[before]
                changed.add(before)
        if driver:
            self._driver_of[name] = driver
            self._slices[driver] += 1
            if self._slices[driver] == 1:
                changed.add(driver)
        return changed
