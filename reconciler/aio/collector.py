"""How often Python collects circular garbage: seldom, since the process holds many long-lived objects."""

COLLECTIONS = (10_000, 20, 100)
"""Arguments of `gc.set_threshold`: new objects before a collection of the youngest generation, which takes a
millisecond; such collections before one of the middle generation; and those before a full collection."""
