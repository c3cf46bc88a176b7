"""Who has to move so that something fits, that nodes are empty, or that more is free at once.

One world, one set of occupants and one trial for all questions: make room, drain, defragment.
"""
