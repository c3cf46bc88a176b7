"""The limits of a search for moves: what they left untried is said with the plan."""

from enum import StrEnum


class Ended(StrEnum):
    """A limit that ended a part of the search."""

    DECISIONS = "decisions"
    """Of a whole plan"""
    MOVES = "moves"
    """Of a whole plan"""
    STOPPED = "stopped"
    """Nobody wanted the plan any more"""
    STEPS = "steps"
    """Of one decision"""
    PLACES = "places"
    """That were tried for one pod"""
    SETS = "sets"
    """Of the pods in one place: only all of them together were considered"""
    ALTERNATIVES = "alternatives"
    """To the first plan that was found"""
