"""The one mutable picture of the cluster; frozen snapshots out. No asyncio."""
