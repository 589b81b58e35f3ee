"""Talks with a model that has a chat template, a turn by line. Usage: chat.py [HOST:PORT]"""

import sys

import sluice

turns = []
with sluice.Client(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:8700") as client:
    for line in sys.stdin:
        turns.append({"role": "user", "content": line.strip()})
        answer = ""
        for chunk in client.generate(turns, max_tokens=200):
            answer += chunk.text
            print(chunk.text, end="", flush=True)
        print()
        turns.append({"role": "assistant", "content": answer})
