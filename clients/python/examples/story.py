"""Streams a story. Usage: story.py [HOST:PORT]"""

import sys

import sluice

with sluice.Client(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:8700", timeout=60) as client:
    stream = client.generate("Once upon a time", max_tokens=60, temperature=0.7, seed=1)
    for chunk in stream:
        print(chunk.text, end="", flush=True)
    print(f"\n{stream.finished.usage.num_generated_tokens} tokens")
