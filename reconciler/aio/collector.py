"""How often Python looks for circular garbage: seldom, since what a process holds for long is large."""

COLLECTIONS = (10_000, 20, 100)
"""Objects that are made before the youngest are looked through for circular garbage, a millisecond; how often
that is done before the next older ones are; and how often that, before all are."""
