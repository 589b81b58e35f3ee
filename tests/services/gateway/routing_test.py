"""Two orchestrators behind one gateway: requests go where the beginnings of their prompts are held, orchestrators come and
go while it runs, and one that is lost takes no request with it.

Usage: routing_test.py BIN_DIR [unittest arguments]
"""

import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest

from served import STORYTELLER, Pipeline, call

BIN = sys.argv[1]


class Gateway:
    """sluice-gateway over the orchestrators that a file lists."""

    def __init__(self, *endpoints, flags=()):
        self.folder = tempfile.TemporaryDirectory()
        self.file = os.path.join(self.folder.name, "endpoints")
        self.list(*endpoints)
        self.process = subprocess.Popen(
            [os.path.join(BIN, "sluice-gateway"), "--orchestrator", f"file:{self.file}", "--listen", "127.0.0.1:0",
             *flags],
            stderr=subprocess.PIPE, text=True)
        self.address = None
        while self.address is None:
            line = self.process.stderr.readline()
            assert line, "the gateway ended"
            if " listening address=" in line:
                self.address = re.search(r"address=(\S+)", line).group(1)

    def list(self, *endpoints):
        with open(self.file + ".new", "w", encoding="utf-8") as file:
            file.write("# orchestrators\n" + "".join(f"{endpoint}  # one\n" for endpoint in endpoints))
        os.replace(self.file + ".new", self.file)

    def metric(self, name):
        text = call(self.address, "GET", "/metrics").text
        return float(re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE).group(1))

    def await_metric(self, name, value):
        deadline = time.monotonic() + 30
        while self.metric(name) != value:
            assert time.monotonic() < deadline, f"{name} is {self.metric(name)}, not {value}"
            time.sleep(0.05)

    def await_known(self, more_than=0):
        deadline = time.monotonic() + 30
        while self.metric("sluice_gateway_known_prefixes") <= more_than:
            assert time.monotonic() < deadline, "no orchestrator says what it holds"
            time.sleep(0.02)

    def complete(self, prompt, **options):
        """(usage, text) of a completion of 4 tokens."""
        answer = call(self.address, "POST", "/v1/completions",
                      {"prompt": prompt, "max_tokens": 4, "temperature": 0, **options})
        assert answer.status == 200, answer.text
        return answer.json["usage"], answer.json["choices"][0]["text"]

    def stop(self):
        self.process.terminate()
        self.process.wait(30)
        self.process.stderr.close()
        self.folder.cleanup()


def cached(usage):
    return usage.get("prompt_tokens_details", {}).get("cached_tokens", 0)


def story(number):
    """A prompt of more than 256 bytes, unlike all others from its first word on."""
    return f"{number} little cats lived in a house by the sea. " + "They liked to play in the garden all day long. " * 6


class RoutingTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.pipelines = [Pipeline(os.path.join(BIN, "sluice"), "--model", STORYTELLER) for _ in range(2)]
        cls.endpoints = [pipeline.endpoint for pipeline in cls.pipelines]

    @classmethod
    def tearDownClass(cls):
        for pipeline in cls.pipelines:
            pipeline.stop()

    def setUp(self):
        self.gateway = Gateway(*self.endpoints)
        self.addCleanup(self.gateway.stop)
        self.gateway.await_metric("sluice_gateway_heard_orchestrators", len(self.endpoints))

    def test_the_second_request_with_a_long_prefix_hits_the_cache(self):
        for number in range(8):
            before = self.gateway.metric("sluice_gateway_known_prefixes")
            usage, _ = self.gateway.complete(story(number))
            if number == 0:  # whose cache is shared with whom is known from the first answer on
                self.gateway.complete(story(number))
            self.gateway.await_known(more_than=before)
            # A conversation goes on; another one begins alike.
            for tail in ("Then it rained.", "One day a dog came."):
                longer, _ = self.gateway.complete(story(number) + tail)
                self.assertGreater(cached(longer), usage["prompt_tokens"] * 0.7, f"story {number}")
        self.assertGreaterEqual(self.gateway.metric('sluice_gateway_routed_calls_total{by="prefix"}'), 16)
        self.assertGreater(self.gateway.metric("sluice_gateway_known_prompt_tokens_total"), 0)

    def test_another_gateway_knows_what_the_first_one_sent(self):
        first, _ = self.gateway.complete(story(100))
        other = Gateway(*self.endpoints)
        self.addCleanup(other.stop)
        other.await_metric("sluice_gateway_heard_orchestrators", 2)
        other.complete("Hello")  # learns the scope
        other.await_known()
        usage, _ = other.complete(story(100) + "Then it rained.")
        self.assertGreater(cached(usage), first["prompt_tokens"] * 0.7)
        self.assertEqual(other.metric('sluice_gateway_routed_calls_total{by="prefix"}'), 1)

    def test_orchestrators_come_and_go(self):
        texts = {}
        self.gateway.list(self.endpoints[0])
        self.gateway.await_metric("sluice_gateway_orchestrators", 1)
        texts["one"] = self.gateway.complete(story(200))[1]
        self.gateway.list(*reversed(self.endpoints))
        self.gateway.await_metric("sluice_gateway_orchestrators", 2)
        self.gateway.list(self.endpoints[1])
        self.gateway.await_metric("sluice_gateway_orchestrators", 1)
        texts["other"] = self.gateway.complete(story(200))[1]
        self.assertEqual(texts["one"], texts["other"])
        os.remove(self.gateway.file)  # what it said last counts
        time.sleep(1.2)
        self.assertEqual(self.gateway.complete(story(200))[1], texts["one"])
        self.gateway.list()
        self.gateway.await_metric("sluice_gateway_orchestrators", 0)
        self.assertEqual(call(self.gateway.address, "GET", "/health").status, 503)

    def test_a_lost_orchestrator_takes_no_request_with_it(self):
        third = Pipeline(os.path.join(BIN, "sluice"), "--model", STORYTELLER)
        self.gateway.list(*self.endpoints, third.endpoint)
        self.gateway.await_metric("sluice_gateway_heard_orchestrators", 3)
        before = [self.gateway.complete(story(number))[1] for number in range(300, 308)]
        third.stop()
        after = [self.gateway.complete(story(number))[1] for number in range(300, 308)]
        self.assertEqual(before, after)
        self.gateway.await_metric("sluice_gateway_heard_orchestrators", 2)


class PermissionTest(unittest.TestCase):
    """One orchestrator, by two names, that asks for tokens."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        path = lambda name: os.path.join(cls.folder.name, name)  # noqa: E731
        cls.path = staticmethod(path)
        with open(path("tokens"), "w", encoding="utf-8") as tokens:
            for tenant in ("operator", "other"):
                tokens.write(f"{hashlib.sha256(tenant.encode()).hexdigest()} {tenant}\n")
                with open(path(tenant), "w", encoding="utf-8") as file:
                    file.write(f"{tenant}\n")
        with open(path("tenants.json"), "w", encoding="utf-8") as file:
            json.dump({"tenants": {"operator": {"sees_all_requests": True}}}, file)
        cls.pipeline = Pipeline(os.path.join(BIN, "sluice"), "--model", STORYTELLER, "--tokens", path("tokens"),
                                "--tenants", path("tenants.json"))
        cls.endpoints = [cls.pipeline.endpoint, f"localhost:{cls.pipeline.port}"]

    @classmethod
    def tearDownClass(cls):
        cls.pipeline.stop()
        cls.folder.cleanup()

    def start(self, token):
        gateway = Gateway(*self.endpoints, flags=["--orchestrator_token_file", self.path(token)])
        self.addCleanup(gateway.stop)
        return gateway

    def test_an_operators_gateway_is_told_what_is_held(self):
        self.start("operator").await_metric("sluice_gateway_heard_orchestrators", 2)

    def test_a_tenants_gateway_is_not_and_serves_all_the_same(self):
        gateway = self.start("other")
        line = ""
        while "kv-events-refused" not in line:
            line = gateway.process.stderr.readline()
        self.assertIn("sees_all_requests", line)
        answer = call(gateway.address, "POST", "/v1/completions", {"prompt": story(1), "max_tokens": 2},
                      headers={"authorization": "Bearer other"})
        self.assertEqual(answer.status, 200)
        self.assertEqual(gateway.metric("sluice_gateway_known_prefixes"), 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[2:], verbosity=2)
