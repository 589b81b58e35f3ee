"""Completions over HTTP whose answers nobody reads."""

import contextlib
import json
import random
import socket
import time

PROMPT_TOKENS, MAX_TOKENS = 16, 400


def _request(seed):
    ids = random.Random(seed).choices(range(300, 2000), k=PROMPT_TOKENS)
    data = json.dumps({"prompt": ids, "max_tokens": MAX_TOKENS, "temperature": 0, "ignore_eos": True, "stream": True}).encode()
    return b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (
        len(data), data)


@contextlib.contextmanager
def waiting_streams(address, count):
    """So many streams that have begun, or wait for their turn."""
    host, port = address.rsplit(":", 1)
    connections = []
    try:
        for number in range(count):
            connections.append(socket.create_connection((host, int(port)), 60))
            connections[-1].sendall(_request(number))
        time.sleep(2)  # until all are known to the gateway
        yield
    finally:
        for connection in connections:
            connection.close()
