"""Defragmentation: moves of pods after which more fits. No I/O, no clock. docs/defragment.md."""
