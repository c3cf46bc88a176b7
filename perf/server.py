"""An empty API server in memory, in a process of its own. Prints its URL; ends with its standard input."""

import asyncio
import sys

from reconciler.embedded import ApiServer, serve


async def main() -> None:
    """Serve until whoever started us is done."""
    async with serve(ApiServer()) as url:
        print(url, flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
