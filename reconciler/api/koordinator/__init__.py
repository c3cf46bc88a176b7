"""Koordinator's Device objects and pod annotations, as they are written."""
