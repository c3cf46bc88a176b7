"""Koordinator's devices: Device objects and annotations of pods, decided and written."""
