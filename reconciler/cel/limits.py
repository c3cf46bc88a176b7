"""What one expression may cost, so that a hostile one ends in an error."""

MAX_LENGTH = 10 * 1024
"""Characters; the API server's own bound."""
MAX_NESTING = 250
"""Brackets inside brackets, counted before parsing."""
MAX_DEPTH = 120
"""Levels of the tree. A level takes up to three interpreter frames, of which there are 1,000 by default."""
COST_LIMIT = 1_000_000
"""Steps of one evaluation (CEL-14)."""
MASK_COST_LIMIT = 5 * COST_LIMIT
"""Steps of one pass over all devices, some seconds; the devices left then are errors."""
DECISION_COST_LIMIT = 4 * MASK_COST_LIMIT
"""Steps of all selectors of a decision on all devices. Claims that ask for more are not decided."""
STATED_COST_LIMIT = COST_LIMIT // 10
"""Steps of all `compatibleOnlyWith` of a pool on its devices: run on the loop, before the next decision."""
COMPILING_COST = 500
"""Steps that an expression counts for when it is compiled, however short, where many are."""
READING_COST = 5
"""Steps that each character of an expression counts for when it is compiled, where many are."""
MAX_REGEX_LENGTH = MAX_LENGTH
"""Characters of a pattern, which may be computed and so be longer than any expression."""
REGEX_MEMORY = 1 << 18
"""Bytes a compiled pattern may take: any plain text of 10 KiB fits, and 2 ms compile it."""
PATTERN_STEPS = 2000
"""Steps of a search for a pattern that is computed, and so compiled, at run time."""
MAX_INCLUDED = 48
"""Elements that `includes` looks at (CEL-17)."""
