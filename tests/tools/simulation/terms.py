"""Whose time it is to allocate, told from what the server applied: nobody's whose successor has begun."""

import json

from reconciler.cluster.transport import Response


class Terms:
    """Follows the writes of all lives of all replicas. A life ends when its process is killed."""

    def __init__(self, *, leases: bool) -> None:
        """With `leases` a life may allocate again once it has got the Lease."""
        self._leases = leases
        self._lives = 0
        self._holder = 0
        self._over: set[int] = set()

    def begun(self) -> int:
        """Number another life."""
        self._lives += 1
        return self._lives

    def applied(self, life: int, write: str, answer: Response) -> bool:
        """Note a write. Whether it allocated what was no more its to give."""
        if answer.status not in (200, 201):
            return False
        if "/leases" in write:
            if json.loads(answer.body)["spec"].get("holderIdentity"):
                self._holder = life
                self._over.discard(life)
            return False
        if not write.endswith("/status") or not json.loads(answer.body)["status"].get("allocation"):
            return False
        late = life in self._over
        if not self._leases:
            self._over |= set(range(1, life))
        elif life == self._holder:
            self._over = set(range(1, self._lives + 1)) - {life}
        return late
