"""Koordinator's Device objects and pod annotations: objects, columns, decision. No I/O, no clock."""
