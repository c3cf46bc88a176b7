"""Limits of one expression, so that a hostile one ends in an error."""

MAX_LENGTH = 10 * 1024
"""Characters; the API server has the same limit."""
MAX_NESTING = 250
"""Nested brackets, counted before parsing."""
MAX_DEPTH = 120
"""Levels of the tree. A level takes up to three interpreter frames; Python allows 1,000 by default."""
COST_LIMIT = 1_000_000
"""Steps of one evaluation (CEL-14)."""
MASK_COST_LIMIT = 5 * COST_LIMIT
"""Steps of one pass over all devices: some seconds. Devices beyond the limit are errors."""
DECISION_COST_LIMIT = 4 * MASK_COST_LIMIT
"""Steps of all selectors of one decision on all devices. Claims that need more are not decided."""
STATED_COST_LIMIT = COST_LIMIT // 10
"""Steps of all `compatibleOnlyWith` of a pool on its devices: they run on the event loop, before the next
decision."""
COMPILING_COST = 500
"""Steps charged to compile one expression, where many are compiled."""
READING_COST = 5
"""Steps charged per character to compile an expression, where many are compiled."""
MAX_REGEX_LENGTH = MAX_LENGTH
"""Characters of a pattern. A computed pattern can be longer than any expression."""
REGEX_MEMORY = 1 << 18
"""Bytes of a compiled pattern: any plain text of 10 KiB fits and compiles in 2 ms."""
PATTERN_STEPS = 2000
"""Steps of a search for a computed pattern, which is compiled at run time."""
MAX_INCLUDED = 48
"""Elements that `includes` compares (CEL-17)."""
