"""The admission check for Kueue: answers for Workloads, and holds room for their pods."""
