"""The file of --tenants: what it grants, and that it is read again on SIGHUP while requests run.

Usage: tenants_file_test.py BIN_DIR PROTO_PYTHON_DIR [unittest arguments]
"""

import json
import os
import signal
import tempfile
import threading
import time
import unittest

from processes import Client, Up, grpc, listeners_of, main, request, status_pb2

WAIT_S = 30


class Served:
    """`sluice up` with a file of tenants."""

    def __init__(self, rules):
        self.file = tempfile.NamedTemporaryFile("w", suffix=".json")
        self.write(json.dumps(rules))
        self.up = Up("--tenants", self.file.name)
        self.client = Client(self.up.endpoint)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.up.stop()
        self.file.close()

    def write(self, text):
        self.file.seek(0)
        self.file.truncate()
        self.file.write(text)
        self.file.flush()

    def grant(self, text):
        self.write(text if isinstance(text, str) else json.dumps(text))
        os.kill(listeners_of(self.up.process.pid)["orchestrator"], signal.SIGHUP)

    def start(self, tenant, max_tokens=480, n=1, priority=0):
        message = request(max_tokens, seed=1)
        message.n, message.priority = n, priority
        message.drafts.decline = True
        return self.client.generate(message, metadata=(("sluice-tenant", tenant),))

    def refusal(self, tenant, **asked):
        """Why a short call is refused, and its status; nothing where it is served."""
        call = self.start(tenant, **{"max_tokens": 2, **asked})
        try:
            for _ in call:
                pass
        except grpc.RpcError as error:
            return error.code(), error.details(), dict(call.trailing_metadata())
        return None

    def of(self, tenant):
        status = self.client.unary("GetStatus", status_pb2.GetStatusRequest(include_requests=True),
                                   status_pb2.GetStatusResponse)
        return next((found for found in status.tenants if found.name == tenant), status_pb2.TenantStatus())


class Writers:
    """Streams of a tenant, each of 16 sequences and begun again when it ends."""

    def __init__(self, served, tenant, calls):
        self.num_tokens, self.over = 0, False
        self.calls = [None] * calls
        self.threads = [threading.Thread(target=self.write, args=(served, tenant, i)) for i in range(calls)]
        for thread in self.threads:
            thread.start()

    def write(self, served, tenant, index):
        while not self.over:
            self.calls[index] = served.start(tenant, n=16)
            try:
                for response in self.calls[index]:
                    self.num_tokens += len(response.chunk.token_ids)
            except grpc.RpcError:
                if not self.over:
                    raise

    def stop(self):
        self.over = True
        for thread, call in zip(self.threads, self.calls):
            while thread.is_alive():
                call.cancel()
                thread.join(0.2)


class TenantsFileTest(unittest.TestCase):
    def await_that(self, happens, what):
        deadline = time.monotonic() + WAIT_S
        while not happens():
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.02)

    def test_classes_are_those_that_the_file_has_now(self):
        with Served({"tenants": {"chat": {"priorities": [0, 1]}}}) as served:
            self.assertIsNone(served.refusal("chat", priority=1))
            code, why, _ = served.refusal("batch", priority=1)
            self.assertEqual(code, grpc.StatusCode.INVALID_ARGUMENT)
            self.assertEqual(why, 'priority is 1; accepted for tenant "batch": 0')
            # One that is taken out is one of those that are not named, from the next call on.
            served.grant({"default": {"priorities": [0, 5]}})
            self.await_that(lambda: served.refusal("chat", priority=1), "the file is not read again")
            self.assertEqual(served.refusal("chat", priority=1)[1], 'priority is 1; accepted for tenant "chat": 0, 5')
            self.assertIsNone(served.refusal("chat", priority=5))

    def test_a_wrong_file_changes_nothing_and_stops_nothing(self):
        with Served({"tenants": {"chat": {"priorities": [0, 1]}}}) as served:
            stream = served.start("chat")
            for wrong in ("{", '{"tenants": {"chat": {"weigth": 2}}}', '{"tenants": {"chat": {"weight": -1}}}', "[]"):
                served.grant(wrong)
            os.remove(served.file.name)
            os.kill(listeners_of(served.up.process.pid)["orchestrator"], signal.SIGHUP)
            self.assertEqual(sum(len(response.chunk.token_ids) for response in stream), 480)
            self.assertIsNone(served.refusal("chat", priority=1))
            self.assertIsNotNone(served.refusal("batch", priority=1))
            with open(served.file.name, "w") as file:  # for who closes it
                json.dump({}, file)
            os.kill(listeners_of(served.up.process.pid)["orchestrator"], signal.SIGHUP)
            self.await_that(lambda: served.refusal("chat", priority=1), "a file that is right again is not read")

    def test_the_most_that_run_and_wait(self):
        with Served({"tenants": {"batch": {"max_running_sequences": 2, "max_waiting_sequences": 3}}}) as served:
            calls = [served.start("batch") for _ in range(2)]
            self.await_that(lambda: served.of("batch").num_running_sequences == 2, "2 run")
            calls += [served.start("batch") for _ in range(3)]
            self.await_that(lambda: (served.of("batch").num_running_sequences, served.of("batch").num_waiting_sequences)
                            == (2, 3), "2 run and 3 wait")
            code, why, metadata = served.refusal("batch")
            self.assertEqual(code, grpc.StatusCode.RESOURCE_EXHAUSTED)
            self.assertIn('3 sequences of tenant "batch" are waiting; its limit is 3', why)
            self.assertIn(b"google.rpc.RetryInfo", metadata["grpc-status-details-bin"])
            self.assertIsNone(served.refusal("other"))
            served.grant({"tenants": {"batch": {"max_running_sequences": 4, "max_waiting_sequences": 0}}})
            self.await_that(lambda: served.of("batch").num_running_sequences == 4, "4 run once that is granted")
            self.assertIn("its limit is 0", served.refusal("batch")[1])
            for call in calls:  # who waits already stays
                self.assertEqual(sum(len(response.chunk.token_ids) for response in call), 480)

    def test_weights_that_change_while_both_write(self):
        with Served({}) as served:
            tenants = {name: Writers(served, name, 5) for name in ("light", "heavy")}
            try:
                self.await_that(lambda: all(writers.num_tokens > 2000 for writers in tenants.values()), "both write")

                def ratio():
                    """Of the tokens in a second."""
                    before = {name: writers.num_tokens for name, writers in tenants.items()}
                    time.sleep(1)
                    light, heavy = (tenants[name].num_tokens - before[name] for name in ("light", "heavy"))
                    return heavy / max(light, 1)

                self.await_that(lambda: 0.6 < ratio() < 1.7, "alike at first")
                served.grant({"tenants": {"heavy": {"weight": 4}}})
                self.await_that(lambda: 2.5 < ratio() < 6, "four to one")
                served.grant({"tenants": {"light": {"weight": 4}}})
                self.await_that(lambda: 2.5 < 1 / ratio() < 6, "one to four")
            finally:
                for writers in tenants.values():
                    writers.stop()


if __name__ == "__main__":
    main()
