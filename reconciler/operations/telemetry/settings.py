"""The settings in `/statusz`, without secrets."""

from reconciler.cluster.target import without_password
from reconciler.operations.serving.statusz import Row
from reconciler.settings import Settings

SECRET = frozenset({"status_token_file", "status_tls_key", "kubeconfig"})
"""Settings with the path of a secret; only whether they are set is shown"""


def settings_shown(settings: Settings) -> list[Row]:
    """Every setting by name, without secrets and their paths."""
    rows = []
    for name in type(settings).model_fields:
        value = getattr(settings, name)
        if name in SECRET:
            value = None if value is None else "(set)"
        elif name == "server" and value is not None:
            value = without_password(value)
        elif isinstance(value, frozenset):
            value = ", ".join(sorted(value))
        rows.append((name, "" if value is None else str(value)))
    return rows
