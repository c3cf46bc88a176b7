"""Whether this controller allocated what a pod holds: only such pods are evicted. Source: MAKE-9."""

from collections.abc import Iterable

from reconciler.api.objects.meta import ObjectKey
from reconciler.control.audit import written_by_us
from reconciler.control.ownership import Ownership
from reconciler.ha.shard import Side
from reconciler.state.store import Store


def allocated_by_us(claims: Iterable[ObjectKey], store: Store, ours: Ownership) -> bool:
    """Whether we allocated all of these claims. A pod without devices is nobody's to evict."""
    held = [store.claims[key] for key in claims]
    classes = store.snapshot().classes if held else {}
    return bool(held) and all(
        ours.side(claim, lambda: classes).side is Side.OURS
        and ours.trespass(claim, claim.allocation) is None
        and written_by_us(claim)  # another shard may have written it: the mark is the same
        for claim in held
    )
