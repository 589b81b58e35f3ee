"""Sixteen texts at a time with asyncio. Usage: many.py [HOST:PORT]"""

import asyncio
import sys

from sluice import aio


async def main() -> None:
    address = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:8700"
    async with aio.Client(address, timeout=60) as client:
        texts = await asyncio.gather(*(client.text("The king", max_tokens=20, temperature=1, seed=i) for i in range(16)))
    for text in texts:
        print(repr(text))


asyncio.run(main())
