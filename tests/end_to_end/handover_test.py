"""An update of a whole pipeline as Kubernetes does it with the chart: all stages are replaced at once, a new orchestrator comes up
beside the old one, and the old one ends once the new one accepts calls. Calls go to whoever accepts them, as a Service sends
them, and are made once: none fails.

Usage: handover_test.py BIN_DIR PROTO_PYTHON_DIR [unittest arguments]
"""

import os
import subprocess
import tempfile
import threading
import time
import unittest

from processes import BIN, SLUICE, STORYTELLER, Client, main, request, text_of

STAGES = ("tokenizer", "embedding", "shard", "sampler")
TOKENS = 40


class Parts:
    """Processes by name, each on a socket of that name, with its health beside it."""

    def __init__(self, folder):
        self.folder = folder
        self.processes = {}

    def address(self, name):
        return f"unix:{self.folder}/{name}"

    def start(self, name, program=None, *flags):
        self.processes[name] = subprocess.Popen(
            [os.path.join(BIN, f"sluice-{program or name}"), "--model", STORYTELLER, "--listen", self.address(name),
             "--health_listen", self.address(f"{name}-health"), *flags])

    def start_stages(self):
        for name in STAGES:
            self.start(name, None, *(["--kv_cache_mib", "64"] if name == "shard" else []))

    def start_orchestrator(self, name):
        addresses = [part for flag, stage in (("tokenizer", "tokenizer"), ("embedding", "embedding"), ("shards", "shard"), ("sampler", "sampler"))
                     for part in (f"--{flag}", self.address(stage))]
        self.start(name, "orchestrator", *addresses, "--hold_time", "60s", "--drain_delay", "1s", "--drain_timeout", "3s")

    def healthy(self, name, service):
        done = subprocess.run([SLUICE, "health", "--endpoint", self.address(f"{name}-health"), "--service", service],
                              capture_output=True, text=True, timeout=30)
        return done.returncode == 0

    def await_accepting(self, name, seconds=60):
        deadline = time.monotonic() + seconds
        while not self.healthy(name, "accepts"):
            if time.monotonic() > deadline:
                raise AssertionError(f"{name} does not accept calls")
            time.sleep(0.05)

    def end(self, *names):
        for name in names:
            self.processes[name].terminate()
        for name in names:
            self.processes.pop(name).wait(30)


class Callers:
    """Calls one after the other, from two threads, at the orchestrator that `parts.serving` names when they begin."""

    def __init__(self, parts, expected):
        self.parts, self.expected = parts, expected
        self.serving, self.done, self.wrong, self.longest = "old", 0, [], 0.0
        self.ended = threading.Event()
        self.threads = [threading.Thread(target=self.call) for _ in range(2)]

    def call(self):
        clients = {}
        while not self.ended.is_set():
            name = self.serving
            client = clients.setdefault(name, Client(self.parts.address(name)))
            began = time.monotonic()
            try:
                text = text_of(client.generate(request(TOKENS, seed=3), timeout=60))
            except Exception as error:  # whatever it is, it must not be
                self.wrong.append(str(error))
                return
            self.longest = max(self.longest, time.monotonic() - began)
            self.done += 1
            if text != self.expected:
                self.wrong.append(text)

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        for thread in self.threads:
            thread.join()

    def await_more(self, count):
        target, deadline = self.done + count, time.monotonic() + 60
        while self.done < target and not self.wrong and time.monotonic() < deadline:
            time.sleep(0.02)


class HandoverTest(unittest.TestCase):
    def test_an_update_of_every_process_fails_no_call(self):
        with tempfile.TemporaryDirectory() as folder:
            parts = Parts(folder)
            try:
                parts.start_stages()
                parts.start_orchestrator("old")
                parts.await_accepting("old")
                expected = text_of(Client(parts.address("old")).generate(request(TOKENS, seed=3)))
                with Callers(parts, expected) as callers:
                    callers.await_more(4)
                    # While stages are missing the old one keeps the calls, and no new one counts as its successor.
                    parts.end(*STAGES)
                    parts.start_orchestrator("new")
                    time.sleep(2)
                    self.assertTrue(parts.healthy("old", "accepts"))
                    self.assertFalse(parts.healthy("new", "accepts"))
                    parts.start_stages()
                    callers.await_more(4)
                    self.assertTrue(parts.healthy("old", ""))
                    parts.await_accepting("new")
                    self.assertFalse(parts.healthy("new", ""))  # it stands by
                    # Kubernetes sends new calls to the new one from now on, and ends the old one.
                    callers.serving = "new"
                    callers.await_more(1)
                    parts.end("old")
                    callers.await_more(6)
                    self.assertTrue(parts.healthy("new", ""))
                self.assertEqual(callers.wrong, [])
                print(f"{callers.done} calls, the longest {callers.longest:.1f} s")
            finally:
                parts.end(*list(parts.processes))


if __name__ == "__main__":
    main()
