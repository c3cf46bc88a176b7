"""Authentication and authorization of the embedded server, if it has tokens and roles."""

from reconciler.embedded.access.accounts import Account, read_tokens
from reconciler.embedded.access.guard import Guard
from reconciler.embedded.access.roles import Roles

__all__ = ["Account", "Guard", "Roles", "read_tokens"]
