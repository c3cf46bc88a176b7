"""Shared by commands: options, exit codes, input, output, connections."""
