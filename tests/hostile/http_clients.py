"""Clients of the gateway that mean no good. beside.py starts them as a process of their own:

http_clients.py ADDRESS ATTACK COUNT TOKEN

All of them are one host, 127.0.0.2. Prints "at work" once its load stands, "done" when it has done its COUNT, and stays until
stdin is closed.
"""

import json
import resource
import socket
import sys
import threading

ADDRESS, ATTACK, COUNT, TOKEN = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
HOST, PORT = ADDRESS.rsplit(":", 1)
_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def say(word):
    print(word, flush=True)


def connect():
    return socket.create_connection((HOST, int(PORT)), 30, source_address=("127.0.0.2", 0))


def head(length, path="/v1/completions", token=TOKEN):
    authorization = f"authorization: Bearer {token}\r\n" if token else ""
    return (f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{authorization}"
            f"content-length: {length}\r\n\r\n").encode()


def send(connection, data):
    """True unless the server has closed: what refuses a body need not read it."""
    try:
        connection.sendall(data)
        return True
    except OSError:
        return False


def status(connection):
    """Of the next response, which is read whole; None where the server has closed."""
    data = b""
    try:
        while b"\r\n\r\n" not in data:
            piece = connection.recv(65536)
            if not piece:
                return None
            data += piece
        fields, _, body = data.partition(b"\r\n\r\n")
        length = next((int(line.split(b":")[1]) for line in fields.lower().split(b"\r\n") if line.startswith(b"content-length")), 0)
        while len(body) < length:
            body += connection.recv(65536)
    except OSError:
        return None
    return int(fields.split(b" ")[1])


def unfinished_bodies():
    """COUNT bodies of 16 MiB of which the last byte never comes."""
    connections = [connect() for _ in range(COUNT)]
    filler = b'{"prompt": "' + b"x" * ((16 << 20) - 14)

    def fill(connection):
        if send(connection, head(16 << 20)):
            send(connection, filler)
    threads = [threading.Thread(target=fill, args=(connection,), daemon=True) for connection in connections]
    for thread in threads:
        thread.start()
    say("at work")
    for thread in threads:
        thread.join(20)
    return connections


def large_bodies():
    """COUNT times four bodies of 10 MiB at once that are slow to parse."""
    body = b'{"prompt": [' + b"[]," * (10 << 20 >> 2) + b"1]}"
    say("at work")
    for _ in range(COUNT):
        connections = [connect() for _ in range(4)]
        threads = [threading.Thread(target=lambda c=c: send(c, head(len(body)) + body)) for c in connections]
        for thread in threads:
            thread.start()
        for thread, connection in zip(threads, connections):
            thread.join()
            if status(connection) == 200:
                say("a body of brackets was taken")


def template_variables():
    """COUNT sets of variables of 1 MiB, each another one."""
    connection = connect()
    say("at work")
    for i in range(COUNT):
        body = json.dumps({"messages": [{"role": "user", "content": "x"}], "max_tokens": 1,
                           "chat_template_kwargs": {"x": str(i) + "y" * (1 << 20)}}).encode()
        send(connection, head(len(body), "/v1/chat/completions") + body)
        if status(connection) is None:
            connection = connect()


def idle_connections():
    """COUNT connections that send nothing, or never the end of a header, some of them."""
    held = []
    for i in range(COUNT):
        try:
            held.append(connect())
        except OSError:
            continue
        if i % 4 == 0:
            send(held[-1], b"GET /health HTTP/1.1\r\nx: ")
    say("at work")
    return held


def wrong_tokens():
    """COUNT calls, each with a token that nobody has."""
    connection = connect()
    say("at work")
    for i in range(COUNT):
        send(connection, head(2, token=f"guess-{i}") + b"{}")
        if status(connection) != 401:
            say("a guess was no 401")
            connection = connect()


held = globals()[ATTACK]()
say("done")
sys.stdin.read()
