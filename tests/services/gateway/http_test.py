"""What the HTTP side does with clients that are slow, greedy, broken or gone.

Usage: http_test.py BIN_DIR [unittest arguments]
"""

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from served import Served, call, connect, read_all

BIN = sys.argv[1]
served = None
strict = None  # another gateway to the same pipeline, with short times and small limits


class StrictGateway:
    """`log`: a file that gets what it logs once it listens."""

    def __init__(self, orchestrator, *flags, log=None):
        self.process = subprocess.Popen(
            [os.path.join(BIN, "sluice-gateway"), "--orchestrator", orchestrator, "--listen", "127.0.0.1:0", *flags],
            stderr=subprocess.PIPE, text=True)
        self.address = self.process.stderr.readline().strip().split("address=")[-1]
        if log is not None:
            self.copier = threading.Thread(target=lambda: log.writelines(self.process.stderr))
            self.copier.start()

    def stop(self):
        self.process.terminate()
        code = self.process.wait(30)
        if hasattr(self, "copier"):
            self.copier.join()
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
    lines = ["POST /v1/completions HTTP/1.1", "host: localhost", f"content-length: {len(body)}", "connection: close", *headers]
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
                     b"GET / HTTP/1.1\r\nbad header\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n",
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
        self.assertEqual(status_of(raw(b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n" + chunked)), 413)

    def test_memory_stays_flat(self):
        self.test_what_is_too_large()
        before = strict.memory_kib()
        for _ in range(5):
            self.test_what_is_too_large()
            self.test_bodies_that_are_no_json()
        self.assertLess(strict.memory_kib(), before + 4096)


class TokensTest(unittest.TestCase):
    def test_tokens_that_no_metadata_can_hold(self):
        with tempfile.TemporaryFile("w+") as log:
            gateway = StrictGateway(served.endpoint, log=log)
            for name in (b"authorization", b"x-api-key"):
                for token in (b"Bearer s3cret\xff", b"Bearer s3c\tret", "Bearer s3cretén".encode(), b"s3cret\x7f",
                              b"s3cret" * 1000):
                    for path in (b"/v1/completions", b"/v1/messages", b"/v1/models"):
                        text = raw(b"POST %s HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n%s: %s\r\n"
                                   b"content-length: 2\r\n\r\n{}" % (path, name, token), gateway.address)
                        self.assertIn(status_of(text), (401, 400), text)  # a DEL is no header at all
                        self.assertNotIn("s3cret", text)
            twice = b"GET /v1/models HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n" + b"authorization: a\r\n" * 2
            self.assertEqual(status_of(raw(twice + b"\r\n", gateway.address)), 401)
            self.assertEqual(call(gateway.address, "GET", "/health").status, 200)
            self.assertEqual(gateway.stop(), 0)
            log.seek(0)
            self.assertNotIn("s3cret", log.read())

    def test_other_headers_that_become_metadata(self):
        for name in (b"traceparent", b"tracestate", b"x-request-id", b"sluice-tenant"):
            for value in (b"\xff", b"a\tb", "é".encode(), b"a=\xff", b"00-" + b"1" * 32 + b"-" + b"2" * 16 + b"-01\xff"):
                body = generation(max_tokens=1)
                text = raw(b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
                           b"traceparent: 00-%s-%s-01\r\n%s: %s\r\ncontent-length: %d\r\n\r\n%s" % (
                               b"1" * 32, b"2" * 16, name, value, len(body), body), served.address)
                self.assertEqual(status_of(text), 200, text)


class SlowClientsTest(unittest.TestCase):
    def test_a_slow_header_and_a_slow_body(self):
        with connect(strict.address) as connection:
            connection.sendall(b"GET /health HTTP/1.1\r\nx: ")
            self.assertEqual(status_of(read_all(connection).decode()), 408)
        with connect(strict.address) as connection:
            connection.sendall(b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{")
            self.assertEqual(status_of(read_all(connection).decode()), 408)

    def test_an_idle_connection_is_closed_without_a_word(self):
        with connect(strict.address) as connection:
            self.assertEqual(read_all(connection), b"")

    def test_idle_connections_give_way_to_a_new_one(self):
        with contextlib.ExitStack() as stack:
            for _ in range(60):
                stack.enter_context(connect(strict.address))
            self.assertEqual(call(strict.address, "GET", "/health").status, 200)


class ConnectionsTest(unittest.TestCase):
    def test_keep_alive_and_requests_sent_ahead(self):
        request = b"GET /v1/models HTTP/1.1\r\nhost: localhost\r\n\r\n"
        last = request.replace(b"host: localhost", b"host: localhost\r\nconnection: close")
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
            connection.sendall(b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\nconnection: close\r\n"
                               b"content-length: %d\r\n\r\n" % len(body))
            self.assertEqual(connection.recv(100), b"HTTP/1.1 100 Continue\r\n\r\n")
            connection.sendall(body)
            self.assertEqual(status_of(read_all(connection).decode()), 200)

    def test_head_has_no_body(self):
        text = raw(b"HEAD /v1/models HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n", served.address)
        self.assertEqual(status_of(text), 200)
        self.assertTrue(text.endswith("\r\n\r\n"))

    def test_pages_of_other_origins_are_refused_unless_allowed(self):
        origin = {"origin": "http://a.example"}
        refused = call(served.address, "GET", "/health", headers=origin)
        self.assertEqual(refused.status, 403)
        self.assertNotIn("access-control-allow-origin", refused.headers)
        own = call(served.address, "GET", "/health", headers={"origin": "http://" + served.address})
        self.assertEqual(own.status, 200)
        allowed = call(strict.address, "OPTIONS", "/v1/completions", headers=origin)
        self.assertEqual((allowed.status, allowed.headers["access-control-allow-origin"]), (204, "http://a.example"))
        other = call(strict.address, "GET", "/health", headers={"origin": "http://b.example"})
        self.assertEqual(other.status, 403)
        self.assertNotIn("access-control-allow-origin", other.headers)

    def test_names_that_a_page_may_have_made_up_are_refused(self):
        for host, status in (("localhost", 200), (served.address, 200), ("evil.example", 403), ("evil.example:8080", 403)):
            with self.subTest(host=host):
                self.assertEqual(call(served.address, "GET", "/health", headers={"host": host}).status, status)
        named = StrictGateway(served.endpoint, "--allowed_hosts", "Chat.Example")
        self.addCleanup(named.stop)
        self.assertEqual(call(named.address, "GET", "/health", headers={"host": "chat.example:443"}).status, 200)
        self.assertEqual(call(named.address, "GET", "/health", headers={"host": "evil.example"}).status, 403)

    def test_a_client_that_has_half_closed_is_answered(self):
        for stream in (False, True):
            with connect(served.address) as connection:
                connection.sendall(post(generation(max_tokens=20, stream=stream)))
                connection.shutdown(socket.SHUT_WR)
                text = read_all(connection).decode()
            self.assertIn("HTTP/1.1 200 OK", text)
            self.assertTrue("usage" in text if not stream else "[DONE]" in text, text)


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
                (["--orchestrator", served.endpoint, "--orchestrator_tls_cert", "x"], 2, "--share_certificate"),
                (["--orchestrator", served.endpoint, "--idle_timeout", "0"], 2, "--idle_timeout is 0"),
                (["what"], 2, 'unexpected argument "what"')):
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
