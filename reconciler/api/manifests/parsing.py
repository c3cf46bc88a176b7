"""What the parsers of manifests share: how deep values nest, and the error."""

MAX_DEPTH = 100
"""Maximum levels of nesting. The deepest known schemas have about forty."""


class ParseError(Exception):
    """The text is not valid. `line` and `column` count from zero."""

    def __init__(self, problem: str, line: int, column: int) -> None:
        super().__init__(problem)
        self.problem = problem
        self.line = line
        self.column = column
