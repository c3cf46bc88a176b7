"""Evicts pods, one at a time, within rates and budgets: to make room for pending pods, and to rebalance."""
