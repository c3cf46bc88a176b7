"""Logs objects that cannot be read, once for each reason."""

import structlog

from reconciler.api.objects.changes import Change, Changed, Refused, Removed, Replaced
from reconciler.api.objects.meta import ObjectKey

log = structlog.get_logger()


class RefusedObjects:
    """The objects that cannot be read, with the reasons that were logged."""

    def __init__(self) -> None:
        self._refused: dict[tuple[str, ObjectKey], str] = {}

    def note(self, change: Change) -> None:
        """Log an object that cannot be read once for each reason."""
        match change:
            case Refused():
                self._refuse(change)
            case Replaced(kind=kind, refused=refused):
                still = {(kind, one.key) for one in refused}
                self._refused = {at: why for at, why in self._refused.items() if at[0] != kind or at in still}
                for one in refused:
                    self._refuse(one)
            case Changed(kind=kind, object=thing):
                if not self._refused:
                    return
                self._refused.pop((kind, thing.key), None)
            case Removed(kind=kind, key=key):
                self._refused.pop((kind, key), None)

    def _refuse(self, refused: Refused) -> None:
        if self._refused.get((refused.kind, refused.key)) != refused.reason:
            self._refused[refused.kind, refused.key] = refused.reason
            log.warning(
                "invalid object ignored", kind=refused.kind, name=str(refused.key), reason=refused.reason
            )
