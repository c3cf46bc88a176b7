"""The mutable state of the cluster, which hands out frozen snapshots. No asyncio."""
