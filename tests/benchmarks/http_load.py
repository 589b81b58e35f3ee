"""Completions over HTTP by plain sockets, so that the client costs little: what is measured is the server."""

import contextlib
import json
import random
import selectors
import socket
import statistics
import time

EVENT = b"data: {"
END = b"data: [DONE]"


def _body(prompt_tokens, max_tokens, seed):
    ids = random.Random(seed).choices(range(300, 2000), k=prompt_tokens)
    return {"prompt": ids, "max_tokens": max_tokens, "temperature": 0, "ignore_eos": True, "stream": True}


def _request(body):
    data = json.dumps(body).encode()
    return b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (
        len(data), data)


def _connect(address):
    host, port = address.rsplit(":", 1)
    connection = socket.create_connection((host, int(port)), 60)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


class _Stream:
    """A connection that sends one request after the other."""

    def __init__(self, address):
        self.connection = _connect(address)
        self.tail = b""
        self.began = self.first = None

    def begin(self, body):
        self.began, self.first, self.tail = time.perf_counter(), None, b""
        self.connection.sendall(_request(body))

    def read(self):
        """True at the end of the answer."""
        data = self.connection.recv(1 << 16)
        if not data:
            raise ConnectionError("the gateway closed a connection")
        if self.first is None and EVENT in self.tail + data:
            self.first = time.perf_counter()
        ended = END in self.tail + data
        self.tail = data[-len(END):]
        return ended


def run(address, streams, requests, prompt_tokens, max_tokens, seed):
    """{"rate": tokens per second, "first_ms": median time to the first token} of so many requests, `streams` at a time."""
    bodies = [_body(prompt_tokens, max_tokens, f"{seed}/{number}") for number in range(requests)]
    selector = selectors.DefaultSelector()
    firsts, began = [], time.perf_counter()
    for _ in range(streams):
        stream = _Stream(address)
        selector.register(stream.connection, selectors.EVENT_READ, stream)
        stream.begin(bodies.pop())
    while selector.get_map():
        for key, _ in selector.select(60):
            stream = key.data
            if not stream.read():
                continue
            firsts.append(1000 * (stream.first - stream.began))
            if bodies:
                stream.begin(bodies.pop())
            else:
                selector.unregister(stream.connection)
                stream.connection.close()
    return {"rate": requests * max_tokens / (time.perf_counter() - began), "first_ms": statistics.median(firsts)}


@contextlib.contextmanager
def waiting_streams(address, count):
    """So many streams that have begun, or wait for their turn, and whose answers nobody reads."""
    connections = []
    try:
        for number in range(count):
            connection = _connect(address)
            connections.append(connection)
            connection.sendall(_request(_body(16, 400, number)))
        time.sleep(2)  # until all are known to the gateway
        yield
    finally:
        for connection in connections:
            connection.close()
