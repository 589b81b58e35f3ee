"""What those who operate a gateway count on: health without a token, certificates that are renewed, an orderly end.

Usage: operations_test.py BIN_DIR [unittest arguments]
"""

import hashlib
import http.client
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import unittest

from served import Served, call, connect, read_all

BIN = sys.argv[1]
TOKEN = "let me in"
served = None
tokens = None  # the file


class Gateway:
    """One of its own beside that of `served`."""

    def __init__(self, *flags):
        self.process = subprocess.Popen(
            [os.path.join(BIN, "sluice-gateway"), "--orchestrator", served.endpoint, "--listen", "127.0.0.1:0", *flags],
            stderr=subprocess.PIPE, text=True)
        self.address = self.process.stderr.readline().strip().split("address=")[-1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait(30)
        self.process.stderr.close()


def write_tokens(text):
    """In one move, as the documents ask for."""
    with open(f"{tokens}.new", "w") as file:
        file.write(text)
    os.replace(f"{tokens}.new", tokens)


def setUpModule():
    global served, tokens
    tokens = os.path.join(tempfile.mkdtemp(), "tokens")
    write_tokens(f"{hashlib.sha256(TOKEN.encode()).hexdigest()} search\n")
    served = Served(BIN, "--tokens", tokens)


def tearDownModule():
    served.stop()
    shutil.rmtree(os.path.dirname(tokens))


def make_certificate(folder, name, *extensions):
    """Puts tls.crt and tls.key into `folder` in one move each, as a Secret's volume does."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1",
                    "-subj", f"/CN={name}", *(part for each in extensions for part in ("-addext", each)),
                    "-keyout", f"{folder}/new.key", "-out", f"{folder}/new.crt"],
                   check=True, capture_output=True)
    os.replace(f"{folder}/new.key", f"{folder}/tls.key")
    os.replace(f"{folder}/new.crt", f"{folder}/tls.crt")


def shown_certificate(address):
    """The certificate of a new handshake, in PEM."""
    host, port = address.rsplit(":", 1)
    return ssl.get_server_certificate((host, int(port)), timeout=30)


def generation(max_tokens):
    body = json.dumps({"prompt": "Once upon a time", "ignore_eos": True, "stream": True, "max_tokens": max_tokens}).encode()
    head = ("POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
            f"authorization: Bearer {TOKEN}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n")
    return head.encode() + body


class StartTest(unittest.TestCase):
    def test_logs_as_it_is_told(self):
        with Gateway("--log_format", "json") as gateway:
            self.assertEqual(json.loads(gateway.address)["event"], "listening")

    def test_last_words(self):
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as other:
            for each in (folder, other):
                make_certificate(each, "localhost")
            words = os.path.join(folder, "words")
            for flags, status, said in (
                    (("--tls_cert", f"{folder}/tls.crt", "--tls_key", f"{other}/tls.key"), 1,
                     f"INVALID_ARGUMENT: the key {other}/tls.key is not that of the certificate {folder}/tls.crt\n"),
                    (("--threads", "20000"), 2, "--threads is 20000; accepted: 1 to 64\n"),
                    (("--log_level", "loud"), 2, "--log_level is \"loud\"; accepted: info, warning, error\n")):
                with self.subTest(flags=flags):
                    done = subprocess.run([os.path.join(BIN, "sluice-gateway"), "--orchestrator", served.endpoint, "--listen",
                                           "127.0.0.1:0", "--termination_log", words, *flags], capture_output=True, text=True, timeout=60)
                    self.assertEqual(done.returncode, status)
                    with open(words) as file:
                        self.assertEqual(file.read(), said)


class TokenTest(unittest.TestCase):
    def test_what_was_revoked_is_answered_nothing(self):
        name = "a second one"
        with open(tokens) as file:
            others = file.read()
        self.addCleanup(write_tokens, others)
        write_tokens(f"{others}{hashlib.sha256(name.encode()).hexdigest()} lab\n")
        header = {"authorization": f"Bearer {name}"}
        asked = (("GET", "/v1/models", None), ("GET", "/v1/models/storyteller", None), ("GET", "/v2/models/storyteller", None),
                 ("GET", "/page/status", None), ("POST", "/tokenize", {"prompt": "Once"}),
                 ("POST", "/v1/completions", {"prompt": "Once", "max_tokens": 1, "logprobs": 1}))
        for method, path, body in asked:
            self.assertEqual(call(served.address, method, path, body, header).status, 200, path)
        write_tokens(others)
        for method, path, body in asked:
            self.assertEqual(call(served.address, method, path, body, header).status, 401, path)

    def test_a_slip_in_the_file_revives_no_token(self):
        with open(tokens) as file:
            others = file.read()
        self.addCleanup(write_tokens, others)
        write_tokens("a slip\n")
        header = {"authorization": f"Bearer {TOKEN}"}
        self.assertEqual(call(served.address, "GET", "/v1/models", headers=header).status, 401)
        write_tokens(f"a slip\n{others}")
        self.assertEqual(call(served.address, "GET", "/v1/models", headers=header).status, 200)

    def test_the_empty_token_is_nobodys(self):
        for value in ("Bearer ", "Bearer", ""):
            answer = call(served.address, "GET", "/v1/models", headers={"authorization": value})
            self.assertEqual(answer.status, 401, value)


class HealthTest(unittest.TestCase):
    def test_what_one_caller_was_told_is_not_told_to_all(self):
        for path in ("/v1/models", "/v2/models/storyteller"):
            self.assertEqual(call(served.address, "GET", path, headers={"authorization": f"Bearer {TOKEN}"}).status, 200)
            self.assertEqual(call(served.address, "GET", path).status, 401)

    def test_needs_no_token_where_calls_do(self):
        self.assertEqual(call(served.address, "GET", "/v1/models").status, 401)
        for path in ("/health", "/v2/health/ready", "/v2/health/live"):
            self.assertEqual(call(served.address, "GET", path).status, 200, path)

    def test_says_that_no_orchestrator_is_there(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            nobody = f"127.0.0.1:{free.getsockname()[1]}"
            with Gateway("--orchestrator", nobody) as gateway:
                answer = call(gateway.address, "GET", "/health")
                self.assertEqual((answer.status, answer.json["status"]), (503, "unavailable"))
                self.assertEqual(call(gateway.address, "GET", "/health?grace=60").status, 503)
                self.assertEqual(call(gateway.address, "GET", "/v2/health/ready").status, 503)
                self.assertEqual(call(gateway.address, "GET", "/v2/health/live").status, 200)


class CertificateTest(unittest.TestCase):
    def test_is_read_again_when_its_files_change(self):
        with tempfile.TemporaryDirectory() as folder:
            make_certificate(folder, "first")
            with Gateway("--tls_cert", f"{folder}/tls.crt", "--tls_key", f"{folder}/tls.key") as gateway:
                first = shown_certificate(gateway.address)
                # Half of a change: the key fits no certificate, and the old pair goes on.
                os.replace(f"{folder}/tls.crt", f"{folder}/old.crt")
                time.sleep(1.1)
                self.assertEqual(shown_certificate(gateway.address), first)
                make_certificate(folder, "second")
                end = time.monotonic() + 20
                while shown_certificate(gateway.address) == first and time.monotonic() < end:
                    time.sleep(0.1)
                with open(f"{folder}/tls.crt") as file:
                    self.assertEqual(shown_certificate(gateway.address).split(), file.read().split())


class PipelineWithTlsTest(unittest.TestCase):
    def ask(self, address, certificate, token):
        connection = http.client.HTTPSConnection(address, timeout=60, context=ssl.create_default_context(cafile=certificate))
        self.addCleanup(connection.close)
        connection.request("POST", "/v1/completions", json.dumps({"prompt": "x", "max_tokens": 2}), {
            "content-type": "application/json", **({"authorization": f"Bearer {token}"} if token else {})})
        return connection.getresponse().status

    def test_its_gateway_has_it_too(self):
        with tempfile.TemporaryDirectory() as folder:
            make_certificate(folder, "127.0.0.1", "subjectAltName=IP:127.0.0.1")
            certificate, tokens = f"{folder}/tls.crt", f"{folder}/tokens"
            with open(tokens, "w") as file:
                file.write(f"{hashlib.sha256(TOKEN.encode()).hexdigest()} search\n")
            own = Served(BIN, "--tls_cert", certificate, "--tls_key", f"{folder}/tls.key", "--tokens", tokens)
            self.addCleanup(own.stop)
            self.assertEqual(self.ask(own.address, certificate, TOKEN), 200)
            self.assertEqual(self.ask(own.address, certificate, None), 401)
            self.assertEqual(self.ask(own.address, certificate, "guessed"), 401)
            with self.assertRaises((http.client.BadStatusLine, ConnectionError)):
                call(own.address, "GET", "/health")  # not in plaintext

    def test_certificates_of_clients_are_for_grpc(self):
        with tempfile.TemporaryDirectory() as folder:
            make_certificate(folder, "x")
            done = subprocess.run([os.path.join(BIN, "sluice"), "up", "--http_port", "0", "--tls_cert", f"{folder}/tls.crt",
                                   "--tls_key", f"{folder}/tls.key", "--tls_ca", f"{folder}/tls.crt"], capture_output=True, text=True,
                                  timeout=60)
            self.assertEqual(done.returncode, 2)
            self.assertIn("set --tokens", done.stderr)


class TraceTest(unittest.TestCase):
    def test_is_passed_on_and_logged_with_the_request(self):
        trace = "0af7651916cd43dd8448eb211c80319c"
        with tempfile.TemporaryFile("w+") as log:
            own = Served(BIN, log=log)
            self.addCleanup(own.stop)
            connection = http.client.HTTPConnection(own.address, timeout=60)
            self.addCleanup(connection.close)
            for path in ("/v1/completions", "/v1/score"):
                body = {"prompt": "Once upon a time"} if path.endswith("score") else {"prompt": "x", "max_tokens": 2}
                connection.request("POST", path, json.dumps(body), {
                    "content-type": "application/json", "traceparent": f"00-{trace}-b7ad6b7169203331-01"})
                response = connection.getresponse()
                response.read()
                self.assertEqual(response.status, 200)
            for _ in range(100):
                log.seek(0)
                ended = [line for line in log if "request-ended" in line and f"trace_id={trace}" in line]
                if len(ended) == 2:
                    break
                time.sleep(0.1)
            self.assertEqual(len(ended), 2)


class RequestWorkTest(unittest.TestCase):
    TEXT = "the king went " * 60_000
    CHAT = [{"role": "user", "content": TEXT}]
    REQUESTS = {"/v1/completions": {"prompt": TEXT, "max_tokens": 1},
                "/v1/chat/completions": {"messages": CHAT},
                "/v1/responses": {"input": TEXT},
                "/tokenize": {"prompt": TEXT},
                "/v1/messages": {"model": "storyteller", "max_tokens": 1, "messages": CHAT},
                "/v1/messages/count_tokens": {"model": "storyteller", "messages": CHAT}}

    def test_what_takes_more_than_a_request_may_is_not_asked_for_again(self):
        """Public clients send again what was answered with 408, 409, 429 or 5xx, and would do the work again each time."""
        own = Served(BIN, "--max_request_work", "1ms")
        self.addCleanup(own.stop)
        for path, body in self.REQUESTS.items():
            answer = call(own.address, "POST", path, body)
            self.assertEqual(answer.status, 400, (path, answer.text))
            self.assertIn("max_request_work: ", answer.error["message"], path)
            self.assertEqual(answer.error["type"], "invalid_request_error", path)
            if "messages" not in path:
                self.assertEqual(answer.error["code"], "request_work_exceeded", path)
            self.assertNotIn("retry-after", answer.headers, path)
        self.assertEqual(call(own.address, "POST", "/v1/completions", {"prompt": "Once", "max_tokens": 2}).status, 200)
        schema = {"type": "array", "items": {"type": "string"}, "minItems": 1_000_000}
        answer = call(own.address, "POST", "/v1/completions", {"prompt": "Once", "guided_json": schema})
        self.assertEqual(answer.status, 400, answer.text)


class DrainTest(unittest.TestCase):
    def stream(self, gateway, max_tokens):
        connection = connect(gateway.address)
        connection.sendall(generation(max_tokens))
        self.assertTrue(connection.recv(1, socket.MSG_PEEK))
        return connection

    def test_a_stream_ends_and_nobody_new_is_taken(self):
        with Gateway("--drain_timeout", "60s") as gateway, self.stream(gateway, 250) as connection:
            gateway.process.send_signal(signal.SIGTERM)
            self.assertIn("data: [DONE]", read_all(connection).decode())
            self.assertEqual(gateway.process.wait(30), 0)
            with self.assertRaises(ConnectionRefusedError):
                connect(gateway.address)

    def test_serves_on_while_it_is_being_forgotten(self):
        with Gateway("--drain_delay", "2s", "--drain_timeout", "60s") as gateway:
            gateway.process.send_signal(signal.SIGTERM)
            self.assertEqual(call(gateway.address, "GET", "/health").status, 200)
            self.assertEqual(gateway.process.wait(30), 0)

    def test_a_second_signal_ends_it_at_once(self):
        with Gateway("--drain_delay", "1h") as gateway:
            gateway.process.send_signal(signal.SIGTERM)
            time.sleep(0.2)  # signals of one kind that wait are one
            gateway.process.send_signal(signal.SIGTERM)
            self.assertEqual(gateway.process.wait(30), 0)

    def test_times_out_of_range_are_refused(self):
        done = subprocess.run([os.path.join(BIN, "sluice-gateway"), "--orchestrator", "x:1", "--drain_delay", "-1s"],
                              capture_output=True, text=True, timeout=30)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--drain_delay is -1s", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
