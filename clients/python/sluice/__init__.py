"""Client of Sluice, a server of language models.

    import sluice

    with sluice.Client("127.0.0.1:8700") as client:
        for chunk in client.generate("Once upon a time", max_tokens=60, temperature=0.7):
            print(chunk.text, end="", flush=True)

A stream goes on by itself where its connection or its server is lost, with the same text. `sluice.aio` has the same
for asyncio.
"""

from sluice import aio
from sluice.client import Client, Stream
from sluice.connection import Tls
from sluice.errors import Error
from sluice.request import Options, make_request
from sluice.retry import NO_RETRY, RetryPolicy

__all__ = ["Client", "Error", "NO_RETRY", "Options", "RetryPolicy", "Stream", "Tls", "aio", "make_request"]
