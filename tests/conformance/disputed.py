"""Cases whose recorded answer is held to be wrong. They are skipped by name, and counted as such."""

from collections.abc import Mapping

DISPUTED: Mapping[str, str] = {}
"""`suite/case` -> the number of the rule that the answer breaks, and why."""
