"""Parsers of what comes from outside, fed with anything: they refuse it in words of ours, or read it."""
