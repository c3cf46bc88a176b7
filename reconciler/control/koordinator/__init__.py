"""Koordinator's devices on a cluster: what pods ask for and hold by annotations, decided and written."""
