"""Reconciles claims and pods: reads what each one needs, decides, and writes the result."""
