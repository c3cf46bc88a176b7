"""Which of Koordinator's devices a pod is given. No I/O, no clock."""
