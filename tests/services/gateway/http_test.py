"""What the HTTP side does with clients that are slow, greedy, broken or gone.

Usage: http_test.py BIN_DIR [unittest arguments]
"""

import json
import os
import subprocess
import sys
import time
import unittest

from served import Served, call, connect, read_all

BIN = sys.argv[1]
served = None
strict = None  # another gateway to the same pipeline, with short times and small limits


class StrictGateway:
    def __init__(self, orchestrator, *flags):
        self.process = subprocess.Popen(
            [os.path.join(BIN, "sluice-gateway"), "--orchestrator", orchestrator, "--listen", "127.0.0.1:0", *flags],
            stderr=subprocess.PIPE, text=True)
        self.address = self.process.stderr.readline().strip().split("address=")[-1]

    def stop(self):
        self.process.terminate()
        code = self.process.wait(30)
        self.process.stderr.close()
        return code

    def memory_kib(self):
        with open(f"/proc/{self.process.pid}/status") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))


def setUpModule():
    global served, strict
    served = Served(BIN)
    strict = StrictGateway(served.endpoint, "--header_timeout", "300ms", "--body_timeout", "300ms", "--idle_timeout",
                           "300ms", "--max_body_mib", "1", "--max_connections", "40", "--cors_origin", "http://a.example")


def tearDownModule():
    strict.stop()
    served.stop()


def raw(data, address=None):
    """What comes back for these bytes, until the server closes."""
    with connect(address or strict.address) as connection:
        connection.sendall(data)
        return read_all(connection).decode()


def status_of(text):
    return int(text.split(" ")[1])


def post(body, headers=()):
    lines = ["POST /v1/completions HTTP/1.1", "host: x", f"content-length: {len(body)}", "connection: close", *headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


def generation(**fields):
    return json.dumps({"prompt": "Once upon a time", "ignore_eos": True, **fields}).encode()


class BrokenRequestsTest(unittest.TestCase):
    def test_bodies_that_are_no_json(self):
        for body, part in ((b"{", "not valid JSON"), (b"", "not valid JSON"), (b'{"prompt": "\xff\xfe"}', "UTF-8"),
                           (b'{"prompt": "\\ud800"}', "not valid JSON"), (b"[" * 100000, "nests deeper"),
                           (b"[1]", "object"), (b'{"temperature": 1e999, "prompt": "a"}', "too large"),
                           (b'{"prompt": "a"} x', "not valid JSON")):
            with self.subTest(body=body[:20]):
                text = raw(post(body))
                self.assertEqual(status_of(text), 400)
                self.assertIn(part, text)

    def test_what_is_no_http(self):
        for data in (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"GET / HTTP/9.9\r\n\r\n", b"nonsense\r\n\r\n",
                     b"GET / HTTP/1.1\r\nbad header\r\n\r\n",
                     b"POST / HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
                     b"POST / HTTP/1.1\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello",
                     b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n"):
            with self.subTest(data=data[:30]):
                self.assertIn(status_of(raw(data)), (400, 505))

    def test_what_is_too_large(self):
        self.assertEqual(status_of(raw(b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\n\r\n")), 431)
        self.assertEqual(status_of(raw(b"GET / HTTP/1.1\r\nx: " + b"a" * 100000 + b"\r\n\r\n")), 431)
        answer = call(strict.address, "POST", "/v1/completions", b"x" * (8 << 20))
        self.assertEqual(answer.status, 413)
        chunked = b"".join(b"10000\r\n" + b"y" * 65536 + b"\r\n" for _ in range(40)) + b"0\r\n\r\n"
        self.assertEqual(status_of(raw(b"POST /v1/completions HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n" + chunked)), 413)

    def test_memory_stays_flat(self):
        self.test_what_is_too_large()
        before = strict.memory_kib()
        for _ in range(5):
            self.test_what_is_too_large()
            self.test_bodies_that_are_no_json()
        self.assertLess(strict.memory_kib(), before + 4096)


class SlowClientsTest(unittest.TestCase):
    def test_a_slow_header_and_a_slow_body(self):
        with connect(strict.address) as connection:
            connection.sendall(b"GET /health HTTP/1.1\r\nx: ")
            self.assertEqual(status_of(read_all(connection).decode()), 408)
        with connect(strict.address) as connection:
            connection.sendall(b"POST /v1/completions HTTP/1.1\r\ncontent-length: 100\r\n\r\n{")
            self.assertEqual(status_of(read_all(connection).decode()), 408)

    def test_an_idle_connection_is_closed_without_a_word(self):
        with connect(strict.address) as connection:
            self.assertEqual(read_all(connection), b"")

    def test_one_connection_too_many(self):
        connections = []
        try:
            for _ in range(60):
                connections.append(connect(strict.address))
            answers = [read_all(c) for c in connections[-10:]]
            self.assertTrue(any(a.startswith(b"HTTP/1.1 503") for a in answers), answers)
        finally:
            for connection in connections:
                connection.close()
        end = time.monotonic() + 20
        while call(strict.address, "GET", "/health").status == 503 and time.monotonic() < end:
            pass
        self.assertEqual(call(strict.address, "GET", "/health").status, 200)


class ConnectionsTest(unittest.TestCase):
    def test_keep_alive_and_requests_sent_ahead(self):
        request = b"GET /v1/models HTTP/1.1\r\nhost: x\r\n\r\n"
        last = request.replace(b"host: x", b"connection: close")
        text = raw(request + request + last, served.address)
        self.assertEqual(text.count("HTTP/1.1 200 OK"), 3)
        self.assertEqual(text.count("connection: keep-alive"), 2)

    def test_http_1_0_gets_an_unframed_stream(self):
        body = generation(max_tokens=3, stream=True)
        text = raw(b"POST /v1/completions HTTP/1.0\r\ncontent-length: %d\r\n\r\n" % len(body) + body, served.address)
        self.assertNotIn("transfer-encoding", text)
        self.assertTrue(text.endswith("data: [DONE]\n\n"))

    def test_expect_continue(self):
        body = generation(max_tokens=1)
        with connect(served.address) as connection:
            connection.sendall(b"POST /v1/completions HTTP/1.1\r\nexpect: 100-continue\r\nconnection: close\r\n"
                               b"content-length: %d\r\n\r\n" % len(body))
            self.assertEqual(connection.recv(100), b"HTTP/1.1 100 Continue\r\n\r\n")
            connection.sendall(body)
            self.assertEqual(status_of(read_all(connection).decode()), 200)

    def test_head_has_no_body(self):
        text = raw(b"HEAD /v1/models HTTP/1.1\r\nconnection: close\r\n\r\n", served.address)
        self.assertEqual(status_of(text), 200)
        self.assertTrue(text.endswith("\r\n\r\n"))

    def test_cors_is_off_unless_asked_for(self):
        origin = {"origin": "http://a.example"}
        self.assertNotIn("access-control-allow-origin", call(served.address, "GET", "/health", headers=origin).headers)
        allowed = call(strict.address, "OPTIONS", "/v1/completions", headers=origin)
        self.assertEqual((allowed.status, allowed.headers["access-control-allow-origin"]), (204, "http://a.example"))
        other = call(strict.address, "GET", "/health", headers={"origin": "http://b.example"})
        self.assertNotIn("access-control-allow-origin", other.headers)


class DisconnectsTest(unittest.TestCase):
    def test_the_sequence_of_a_client_that_left_is_ended(self):
        for stream in (False, True):
            with self.subTest(stream=stream):
                body = generation(max_tokens=480, n=8, stream=stream)
                for _ in range(4):
                    connection = connect(served.address)
                    connection.sendall(post(body))
                    if stream:
                        connection.recv(1)
                    connection.close()
                self.assertEqual(served.wait_until_idle(), 0)

    def test_a_client_that_does_not_read_costs_little(self):
        memory = lambda: strict.memory_kib()
        before = memory()
        connections = []
        for _ in range(16):
            connection = connect(strict.address)
            connection.sendall(post(generation(max_tokens=480, n=16, stream=True, logprobs=20)))
            connections.append(connection)
        time_to_fill = time.monotonic() + 3
        while time.monotonic() < time_to_fill:
            self.assertLess(memory() - before, 64 << 10)
        for connection in connections:
            connection.close()
        self.assertEqual(served.wait_until_idle(60), 0)


    def test_a_thousand_waiting_streams_cost_little(self):
        roomy = StrictGateway(served.endpoint)
        self.addCleanup(roomy.stop)
        self.addCleanup(served.wait_until_idle, 60)
        call(roomy.address, "GET", "/health")
        before = roomy.memory_kib()
        # Idle between requests, or in the middle of an answer that has not come yet: most wait for their turn.
        connections = [connect(roomy.address) for _ in range(1000)]
        self.addCleanup(lambda: [connection.close() for connection in connections])
        for connection in connections[:900]:
            connection.sendall(post(generation(max_tokens=480, stream=True)))
        known, end = 0, time.monotonic() + 30
        while known < 800 and time.monotonic() < end:
            status = served.status()
            known = status["num_running_sequences"] + status["num_waiting_sequences"]
            self.assertLess(roomy.memory_kib() - before, 64 << 10)
        self.assertGreaterEqual(known, 800)
        self.assertLess(roomy.memory_kib() - before, 64 << 10)


class CommandLineTest(unittest.TestCase):
    def refused(self, *flags):
        done = subprocess.run([os.path.join(BIN, "sluice-gateway"), *flags], capture_output=True, text=True, timeout=60)
        return done.returncode, done.stderr

    def test_flags_that_cannot_be(self):
        for flags, code, part in (
                ([], 2, "--orchestrator is required"),
                (["--orchestrator", served.endpoint, "--listen", "0.0.0.0:0"], 2, "not a loopback address"),
                (["--orchestrator", served.endpoint, "--listen", "nowhere"], 2, '"nowhere" has no port'),
                (["--orchestrator", served.endpoint, "--listen", "127.0.0.1:x"], 2, "write HOST:PORT"),
                (["--orchestrator", served.endpoint, "--listen", served.address], 1, "Address already in use"),
                (["--orchestrator", served.endpoint, "--threads", "0"], 2, "--threads is 0"),
                (["--orchestrator", served.endpoint, "--idle_timeout", "0"], 2, "--idle_timeout is 0"),
                (["what"], 2, "unexpected argument what")):
            with self.subTest(flags=flags):
                got, message = self.refused(*flags)
                self.assertEqual(got, code, message)
                self.assertIn(part, message)

    def test_an_orchestrator_that_is_not_there(self):
        alone = StrictGateway("127.0.0.1:1")
        try:
            answer = call(alone.address, "POST", "/v1/completions", {"prompt": "a"})
            self.assertEqual(answer.status, 503)
            self.assertEqual(answer.headers["retry-after"], "1")
            self.assertEqual(call(alone.address, "GET", "/health").status, 503)
        finally:
            self.assertEqual(alone.stop(), 0)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
