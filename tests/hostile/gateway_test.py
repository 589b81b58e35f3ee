"""A good client of the gateway beside hostile ones, on real processes, in the memory that the chart gives a gateway. Prints
what it measured.

Usage: gateway_test.py BIN_DIR PROTO_PYTHON_DIR [unittest arguments]
"""

import hashlib
import http.client
import json
import os
import resource
import shutil
import socket
import statistics
import subprocess
import tempfile
import time
import unittest

from beside import AttackProcess, SLACK_S, hold_to_bounds, peak_mib, show
from processes import BIN, PROMPT, STORYTELLER, Up, free_ports, listeners_of, main

MEMORY_MIB = 256  # of the chart's gateway
LATEST_S = 1  # for the first token of any request: the first that comes while others hold everything
TEMPLATE = "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}assistant:"
pipeline = None


class Pipeline:
    """With a token for each of two tenants."""

    def __init__(self):
        self.folder = tempfile.mkdtemp()
        model = os.path.join(self.folder, "storyteller")
        shutil.copytree(STORYTELLER, model)
        with open(os.path.join(model, "chat_template.jinja"), "w") as file:
            file.write(TEMPLATE)
        tokens = os.path.join(self.folder, "tokens")
        with open(tokens, "w") as file:
            for name in ("good", "hostile"):
                file.write(f"{hashlib.sha256(name.encode()).hexdigest()} {name}\n")
        self.metrics_port = free_ports(7)
        self.up = Up("--model", model, "--tokens", tokens, "--metrics_port", str(self.metrics_port))

    def stop(self):
        self.up.stop()
        shutil.rmtree(self.folder)


class Gateway:
    def __init__(self, *flags, max_descriptors=None):
        def limit():
            if max_descriptors is not None:
                resource.setrlimit(resource.RLIMIT_NOFILE, (max_descriptors, max_descriptors))
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [os.path.join(BIN, "sluice-gateway"), "--orchestrator", pipeline.up.endpoint, "--listen", "127.0.0.1:0",
             "--memory_mib", str(MEMORY_MIB), *flags],
            stderr=self.log, preexec_fn=limit)
        while "address=" not in self.log_text():
            time.sleep(0.01)
        self.address = self.log_text().split("address=")[1].split()[0]

    def log_text(self):
        self.log.seek(0)
        return self.log.read()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        code = self.process.wait(30)
        self.log.close()
        if code != 0:
            raise AssertionError(f"the gateway ended with {code}")

    def processor_seconds(self):
        return processor_seconds(self.process.pid)


def processor_seconds(pid):
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Attack(AttackProcess):
    """Of http_clients.py."""

    def __init__(self, gateway, name, count, token=""):
        super().__init__(name, "http_clients.py", gateway.address, name, str(count), token)

    def wait(self):
        """Until it has done what it came for; what it said beside that."""
        lines = []
        for line in self.process.stdout:
            if line.strip() == "done":
                return lines
            lines.append(line.strip())
        raise AssertionError("the attack ended by itself: " + "; ".join(lines))


def one(gateway, max_tokens=24):
    """Seconds to the first token, and seconds a token from then on, of a client that connects anew."""
    connection = http.client.HTTPConnection(gateway.address, timeout=60)
    body = {"prompt": PROMPT, "max_tokens": max_tokens, "ignore_eos": True, "temperature": 0, "stream": True, "decline_drafts": True}
    began = time.monotonic()
    connection.request("POST", "/v1/completions", json.dumps(body),
                       {"authorization": "Bearer good", "content-type": "application/json"})
    response = connection.getresponse()
    if response.status != 200:
        raise AssertionError(f"the good client got {response.status}: {response.read()}")
    first, tokens = None, 0
    for line in response:
        if line.startswith(b"data: {"):
            first = first or time.monotonic()
            tokens += 1
    connection.close()
    return first - began, (time.monotonic() - first) / max(tokens - 1, 1)


def several(gateway, count=9):
    """Medians of the first token and of a token, and the latest first token."""
    results = [one(gateway) for _ in range(count)]
    firsts = [r[0] for r in results]
    return statistics.median(firsts), statistics.median(r[1] for r in results), max(firsts)


def setUpModule():
    global pipeline
    pipeline = Pipeline()


def tearDownModule():
    pipeline.stop()


class GatewayTest(unittest.TestCase):
    def under(self, name, count, token="", flags=(), max_descriptors=None):
        """The good client's times while `name` is at work, against its quiet ones; the gateway's memory."""
        def measure():
            with Gateway(*flags, max_descriptors=max_descriptors) as gateway:
                several(gateway, 5)
                quiet_first, quiet_token, _ = several(gateway)
                with Attack(gateway, name, count, token) as attack:
                    first, token_s, latest = several(gateway)
                    said = attack.wait()
                    several(gateway, 2)
                several(gateway, 2)
                peak = peak_mib(gateway.process.pid)
                show(f"{name} x {count}{' with a token' if token else ''}: first token {1000 * first:.1f} ms, "
                     f"the latest {1000 * latest:.1f}, quiet {1000 * quiet_first:.1f}; a token {1000 * token_s:.2f} ms, quiet {1000 * quiet_token:.2f}; at most {peak:.0f} MiB")
                self.assertEqual(said, [])
                self.assertLess(peak, MEMORY_MIB)
                most_first, most_token = 2 * quiet_first + quiet_token + SLACK_S, 2 * quiet_token + SLACK_S / 4
                if first <= most_first and token_s <= most_token and latest <= LATEST_S:
                    return None
                return (f"a first token after {first:.3f} s, accepted: {most_first:.3f}, the latest after {latest:.3f} s, "
                        f"accepted: {LATEST_S}; a token in {token_s:.4f} s, accepted: {most_token:.4f}")
        hold_to_bounds(self, measure)

    def test_unfinished_bodies(self):
        self.under("unfinished_bodies", 40)

    def test_unfinished_bodies_of_a_tenant(self):
        self.under("unfinished_bodies", 40, "hostile")

    def test_large_bodies(self):
        self.under("large_bodies", 2)

    def test_large_bodies_of_a_tenant(self):
        self.under("large_bodies", 2, "hostile")

    def test_idle_connections_and_slow_headers_of_one_host(self):
        self.under("idle_connections", 4096)

    def test_more_connections_than_descriptors(self):
        self.under("idle_connections", 500, max_descriptors=200)

    def test_sets_of_template_variables_are_not_kept(self):
        with Gateway() as gateway:
            with Attack(gateway, "template_variables", 4, "hostile") as attack:
                attack.wait()
            before = resident_mib(gateway)
            with Attack(gateway, "template_variables", 48, "hostile") as attack:
                attack.wait()
            after = resident_mib(gateway)
            show(f"48 sets of variables of 1 MiB: {before:.0f} MiB before, {after:.0f} after")
            self.assertLess(after, before + 32)

    def test_guessed_tokens_are_cheap_and_logged_once_a_second(self):
        count = 3000
        with Gateway() as gateway:
            orchestrator = listeners_of(pipeline.up.process.pid)["orchestrator"]
            several(gateway, 3)
            began, spent, spent_there = time.monotonic(), gateway.processor_seconds(), processor_seconds(orchestrator)
            with Attack(gateway, "wrong_tokens", count) as attack:
                said = attack.wait()
            took = time.monotonic() - began
            spent, spent_there = gateway.processor_seconds() - spent, processor_seconds(orchestrator) - spent_there
            time.sleep(1.2)  # until the last second is over
            lines = [line for line in gateway.log_text().split("\n") if "callers-refused" in line]
            show(f"{count / took:.0f} guesses a second: {1e6 * spent / count:.0f} us each of the gateway, "
                 f"{1e6 * spent_there / count:.0f} of the orchestrator; {len(lines)} lines in {took:.1f} s")
            self.assertEqual(said, [])
            self.assertLessEqual(len(lines), took + 2)
            self.assertEqual(sum(int(line.split("count=")[1]) for line in lines), count)
            self.assertTrue(all("peer=127.0.0.2" in line for line in lines), lines)
            self.assertNotIn("guess", gateway.log_text())
            self.assertLess(spent + spent_there, count * 0.001)

    def test_scrapes_wait_for_no_other(self):
        for port in range(pipeline.metrics_port, pipeline.metrics_port + 3):
            with self.assertRaises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.2", port), 5)  # it is on the address that it was told
            stalled = [socket.create_connection(("127.0.0.1", port), 5) for _ in range(3)]
            stalled[1].sendall(b"GET /metrics HTTP/1.1\r\n")
            stalled[2].sendall(b"GET /metrics HTTP/1.1\r\nhost: a\r\n\r\n")  # and never read
            began = time.monotonic()
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
            connection.request("GET", "/metrics")
            self.assertIn("sluice_serving", connection.getresponse().read().decode())
            connection.close()
            self.assertLess(time.monotonic() - began, 2)
            for client in stalled:
                client.close()


def resident_mib(gateway):
    with open(f"/proc/{gateway.process.pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


if __name__ == "__main__":
    main()
