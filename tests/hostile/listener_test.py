"""The public listener beside peers that have no token, on real processes. Prints what it measured.

Usage: listener_test.py BIN_DIR PROTO_PYTHON_DIR [unittest arguments]
"""

import fcntl
import hashlib
import os
import resource
import signal
import socket
import tempfile
import time
import unittest

from beside import FULL, SLACK_S, Attack, Good, hold_to_bounds, peak_mib, show
from processes import Up, children_of, listeners_of, main, request, status_pb2, text_of

TOKEN = "good-token"
# What connections of strangers may take of the orchestrator: far less than the chart's 512 MiB.
MOST_MORE_MIB = 200
# The latest first token of all: what comes at once is over soon.
LATEST_S = 0.5


class GoodWithToken(Good):
    metadata = (("authorization", "Bearer " + TOKEN),)


def largest_descriptor(pid):
    return max(map(int, os.listdir(f"/proc/{pid}/fd")))


class ListenerTest(unittest.TestCase):
    def setUp(self):
        self.tokens = tempfile.NamedTemporaryFile("w")
        self.tokens.write(hashlib.sha256(TOKEN.encode()).hexdigest() + " good\n")
        self.tokens.flush()

    def tearDown(self):
        self.tokens.close()

    def good_beside(self, attacks, flags=None, good=GoodWithToken, same_host=False, latest_s=LATEST_S):
        """Each of `attacks` ({name: count}) in turn, from a host of its own or from that of the good client."""
        with Up(*(["--tokens", self.tokens.name] if flags is None else flags)) as up:
            client = good(up.endpoint)
            client.several(10)
            for i, (name, count) in enumerate(attacks.items()):
                source = None if same_host else f"127.0.0.{i + 2}"
                hold_to_bounds(self, lambda: self.first_token_beside(up, client, name, count, source, latest_s))
                if not same_host:
                    self.assertTrue(self.is_served(good(up.endpoint)), "a new client is not served")

    def is_served(self, client):
        try:
            return bool(client.one(2)[2])
        except Exception:  # pylint: disable=broad-except
            time.sleep(0.5)
            return False

    def first_token_beside(self, up, good, name, count, source=None, latest_s=LATEST_S):
        processes = children_of(up.process.pid)
        orchestrator = listeners_of(up.process.pid)["orchestrator"]
        before = peak_mib(orchestrator)
        quiet, token, texts = good.several(7)
        with Attack(up.endpoint, name, count, by_hand=True, source=source) as attack:
            during, token_during, texts_during, latest = good.several_with_latest(7)
            self.assertEqual(attack.wait(), [])
            _, _, after_texts, latest_after = good.several_with_latest(7)
            latest = max(latest, latest_after)
        held = peak_mib(orchestrator) - before
        show(f"{name} x {count}: first token {1000 * during:.1f} ms, the latest {1000 * latest:.1f} ms, quiet "
             f"{1000 * quiet:.1f} ms; a token {1000 * token_during:.2f} ms, quiet {1000 * token:.2f} ms; {held:.0f} MiB more at most")
        self.assertEqual(texts | texts_during | after_texts, texts, "another text")
        self.assertEqual(children_of(up.process.pid), processes, "a process has ended")
        self.assertLess(held, MOST_MORE_MIB)
        most = 2 * quiet + token + SLACK_S
        if latest > latest_s:
            return f"a first token after {latest:.3f} s; accepted once: {latest_s:.3f} s"
        if during > most:
            return f"a first token after {during:.3f} s; accepted: {most:.3f} s"
        most = 2 * token + SLACK_S
        return None if token_during <= most else f"a token takes {token_during:.4f} s; accepted: {most:.4f} s"

    def test_strangers_with_many_streams(self):
        count = 100_000 if FULL else 30_000
        self.good_beside({"rapid_reset": 300_000 if FULL else 20_000, "idle_sessions": count, "idle_watches": count,
                          "idle_reflections": count})

    def test_a_tenants_name_that_is_no_text_is_refused(self):
        """No list of requests could be read while one of them is in it."""
        with Up() as up:
            good = Good(up.endpoint)
            texts = good.several(2)[2]
            asked = status_pb2.GetStatusRequest(include_requests=True)
            with Attack(up.endpoint, "names_that_are_no_text", 40, by_hand=True) as attack:
                for _ in range(40):
                    good.unary("GetStatus", asked, status_pb2.GetStatusResponse)
                    time.sleep(0.02)
                self.assertEqual(attack.wait(), [])
            self.assertEqual(good.several(1)[2], texts)
            self.assertEqual(good.status().num_recoveries, 0)

    def test_strangers_with_large_messages_or_none(self):
        self.good_beside({"idle_connections": 4096 if FULL else 1200, "gzip_bombs": 20 if FULL else 3,
                          "unfinished_messages": 50 if FULL else 4})

    def test_streams_where_no_token_is_asked_for(self):
        count = 100_000 if FULL else 30_000
        self.good_beside({"rapid_reset": 300_000 if FULL else 20_000, "idle_calls": count, "idle_calls_of_a_caller": count},
                         flags=[], good=Good)

    def test_a_flood_of_calls_that_are_in_order(self):
        """Each is served. With tens of thousands of them before gRPC's threads the probes of `up` are answered all the same."""
        count = 60_000 if FULL else 10_000
        self.good_beside({"status_calls": count, "status_calls_at_once": count, "list_calls": count // 4,
                          "tokenize_calls": count // 4}, flags=[], good=Good, latest_s=2 * LATEST_S)

    def test_streams_that_are_reset_on_the_good_clients_own_host(self):
        self.good_beside({"rapid_reset": 300_000 if FULL else 20_000}, same_host=True)

    def test_a_thousand_wrong_tokens_a_second_are_a_line_a_second(self):
        log = tempfile.TemporaryFile("w+")
        with Up("--tokens", self.tokens.name, stderr=log) as up:
            good = GoodWithToken(up.endpoint)
            good.several(5)
            began = time.monotonic()
            hold_to_bounds(self, lambda: self.first_token_beside(up, good, "wrong_tokens", 10_000 if FULL else 2000))
            took = time.monotonic() - began
        log.seek(0)
        lines = [line for line in log if "call-refused" in line]
        self.assertTrue(lines)
        self.assertIn("host=127.0.0.1", lines[0])
        self.assertLessEqual(len(lines), took + 2)
        self.assertGreater(sum(int(line.rsplit("count=", 1)[1]) for line in lines), 500)
        log.close()

    def test_accepts_again_after_the_end_of_descriptors(self):
        with Up() as up:
            orchestrator = listeners_of(up.process.pid)["orchestrator"]
            _, hard = resource.prlimit(orchestrator, resource.RLIMIT_NOFILE)
            resource.prlimit(orchestrator, resource.RLIMIT_NOFILE, (largest_descriptor(orchestrator) + 9, hard))
            kept = [socket.create_connection(("127.0.0.1", up.port)) for _ in range(100)]
            for connection in kept:
                connection.close()
            deadline = time.monotonic() + 10
            while not self.is_served(Good(up.endpoint)):
                self.assertLess(time.monotonic(), deadline, "nobody can connect any more")
            self.assertEqual(listeners_of(up.process.pid)["orchestrator"], orchestrator)

    def test_a_listener_that_cannot_accept_is_started_again(self):
        with Up() as up:
            orchestrator = listeners_of(up.process.pid)["orchestrator"]
            _, hard = resource.prlimit(orchestrator, resource.RLIMIT_NOFILE)
            resource.prlimit(orchestrator, resource.RLIMIT_NOFILE, (3, hard))  # it has these
            with socket.create_connection(("127.0.0.1", up.port)):
                up.await_replaced(orchestrator)
            deadline = time.monotonic() + 30
            while not self.is_served(Good(up.endpoint)):
                self.assertLess(time.monotonic(), deadline, "the next one does not serve")

    def test_a_log_that_nobody_reads_stops_nobody(self):
        read_end, write_end = os.pipe()
        fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, 4096)
        with Up(stderr=write_end) as up:
            os.close(write_end)
            good = Good(up.endpoint)
            for _ in range(3):
                stage = listeners_of(up.process.pid)["sampler"]
                os.kill(stage, signal.SIGKILL)
                up.await_replaced(stage)
                self.assertTrue(text_of(good.generate(request(8))))
            os.set_blocking(read_end, False)
            self.assertGreater(len(os.read(read_end, 65536)), 1000)
        os.close(read_end)


if __name__ == "__main__":
    main()
