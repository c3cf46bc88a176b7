"""Uids and generated names, from an injected random generator."""

import uuid
from random import Random

_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
"""No vowels, so that suffixes are never words."""
_SUFFIX = 5
_MAX_BASE = 63 - _SUFFIX


def new_uid(random: Random) -> str:
    """A random UUID."""
    return str(uuid.UUID(int=random.getrandbits(128), version=4))


def generated_name(base: str, random: Random) -> str:
    """`base` with a random suffix, short enough for a DNS label."""
    return base[:_MAX_BASE] + "".join(random.choices(_LETTERS, k=_SUFFIX))
