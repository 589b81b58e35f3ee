"""The spans of requests, as a collector gets them from real processes: here one over Debian's python3-grpcio, and where npm has
brought OpenTelemetry's own messages (`./dev setup clients`) those read the same bytes.

Usage: spans_test.py BIN_DIR PROTO_PYTHON_DIR [unittest arguments]
"""

import collections
import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.request

from processes import Client, Up, free_ports, generation_pb2, grpc, killing, main, request, text_of

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "services", "gateway"))

from opentelemetry.proto.collector.trace.v1 import trace_service_pb2  # noqa: E402
from served import call  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
READER = os.path.join(HERE, "npm", "read_spans.mjs")
TRACE = "0af7651916cd43dd8448eb211c80319c"
CALLER = "b7ad6b7169203331"
SAMPLED = f"00-{TRACE}-{CALLER}-01"
UNSAMPLED = f"00-{TRACE}-{CALLER}-00"
METHOD = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"

Told = collections.namedtuple("Told", "service span attributes")


def value_of(value):
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [value_of(each) for each in value.array_value.values]
    return getattr(value, kind)


def attributes_of(said):
    return {attribute.key: value_of(attribute.value) for attribute in said}


class Collector(grpc.GenericRpcHandler):
    """Keeps what it is told; `hangs` makes it answer nobody."""

    def __init__(self, hangs=False):
        self.hangs, self.calls, self.bytes, self.told = hangs, 0, [], []
        self.came, self.ended = threading.Condition(), threading.Event()
        self.server = grpc.server(concurrent.futures.ThreadPoolExecutor(4), handlers=(self,))
        self.address = f"127.0.0.1:{self.server.add_insecure_port('127.0.0.1:0')}"
        self.server.start()

    def service(self, details):
        if details.method == METHOD:
            return grpc.unary_unary_rpc_method_handler(self.export)
        return None

    def export(self, request, _):
        with self.came:
            self.calls += 1
            self.bytes.append(request)
            message = trace_service_pb2.ExportTraceServiceRequest.FromString(request)
            for said in message.resource_spans:
                service = attributes_of(said.resource.attributes)["service.name"]
                for scope in said.scope_spans:
                    self.told += [Told(service, span, attributes_of(span.attributes)) for span in scope.spans]
            self.came.notify_all()
        if self.hangs:
            self.ended.wait(60)
        return b""

    def wait(self, found, seconds=30):
        """What found(told) is, once it is something."""
        end = time.monotonic() + seconds
        with self.came:
            while not found(self.told):
                if not self.came.wait(end - time.monotonic()):
                    raise AssertionError(f"told so far: {[(t.service, t.span.name) for t in self.told]}")
            return found(self.told)

    def named(self, name, count=1):
        def found(told):
            spans = [each for each in told if each.span.name == name]
            return spans if len(spans) >= count else None
        return self.wait(found)

    def stop(self):
        self.ended.set()
        self.server.stop(None).wait()


def children(told, parent):
    return sorted((each for each in told if each.span.parent_span_id == parent.span.span_id),
                  key=lambda each: each.span.start_time_unix_nano)


class SpansTest(unittest.TestCase):
    def collector(self, **options):
        collector = Collector(**options)
        self.addCleanup(collector.stop)
        return collector

    def up(self, *flags, env=None):
        up = Up(*flags, env=env)
        self.addCleanup(up.stop)
        return up

    def check_phases(self, told, whole, names):
        phases = children(told, whole)
        self.assertEqual([each.span.name for each in phases], names)
        ends = [whole.span.start_time_unix_nano] + [each.span.end_time_unix_nano for each in phases]
        for phase, begins in zip(phases, ends):
            self.assertEqual(phase.span.start_time_unix_nano, begins)
            self.assertEqual(phase.span.trace_id, whole.span.trace_id)
        self.assertEqual(ends[-1], whole.span.end_time_unix_nano)

    def test_a_request_has_a_span_in_its_callers_trace_with_its_phases(self):
        collector = self.collector()
        up = self.up("--otlp_endpoint", collector.address)
        before = time.time_ns()
        responses = Client(up.endpoint).generate(request(20, seed=3), metadata=(("traceparent", SAMPLED), ("sluice-tenant", "search")))
        text_of(responses)
        whole = collector.named("text_completion storyteller")[0]
        self.assertEqual(whole.service, "sluice-orchestrator")
        self.assertEqual(whole.span.trace_id.hex(), TRACE)
        self.assertEqual(whole.span.parent_span_id.hex(), CALLER)
        self.assertLessEqual(before, whole.span.start_time_unix_nano)
        self.assertLessEqual(whole.span.end_time_unix_nano, time.time_ns())
        told = collector.wait(lambda told: told if len(told) >= 4 else None)
        self.check_phases(told, whole, ["queue", "prefill", "decode"])
        said = whole.attributes
        self.assertEqual(said["gen_ai.operation.name"], "text_completion")
        self.assertEqual(said["gen_ai.request.model"], "storyteller")
        self.assertEqual(said["gen_ai.request.max_tokens"], 20)
        self.assertEqual(said["gen_ai.usage.output_tokens"], 20)
        self.assertGreater(said["gen_ai.usage.input_tokens"], 3)
        self.assertEqual(said["gen_ai.response.finish_reasons"], ["length"])
        self.assertEqual(said["sluice.tenant"], "search")
        self.assertEqual(said["rpc.grpc.status_code"], 0)
        self.assertNotIn(b"Once upon", b"".join(collector.bytes), "no contents")

    def test_the_environment_chooses_what_is_recorded(self):
        collector = self.collector()
        up = self.up("--otlp_endpoint", collector.address, env={**os.environ, "OTEL_TRACES_SAMPLER": "always_on", "OTEL_BSP_SCHEDULE_DELAY": "0"})
        text_of(Client(up.endpoint).generate(request(2), metadata=(("traceparent", UNSAMPLED),)))
        self.assertEqual(collector.named("text_completion storyteller")[0].span.trace_id.hex(), UNSAMPLED.split("-")[1])

    def test_what_a_caller_does_not_record_is_not_told(self):
        collector = self.collector()
        up = self.up("--otlp_endpoint", collector.address)
        client = Client(up.endpoint)
        text_of(client.generate(request(2), metadata=(("traceparent", UNSAMPLED),)))
        text_of(client.generate(request(3)))
        whole = collector.named("text_completion storyteller")
        self.assertEqual([each.attributes["gen_ai.request.max_tokens"] for each in whole], [3])
        self.assertEqual(whole[0].span.parent_span_id, b"")

    def test_a_refused_request_and_a_loss_are_told(self):
        collector = self.collector()
        up = self.up("--otlp_endpoint", collector.address)
        client = Client(up.endpoint)
        wrong = request(2)
        wrong.sampling.temperature = -1
        with self.assertRaises(grpc.RpcError):
            text_of(client.generate(wrong))
        refused = collector.named("text_completion storyteller")[0]
        self.assertEqual((refused.attributes["error.type"], refused.attributes["rpc.grpc.status_code"]), ("INVALID_ARGUMENT", 3))
        self.assertEqual(refused.span.status.code, 0)
        text_of(client.generate(request(200, seed=3)), killing(up.pids("sluice-sampler")[0]))
        whole = collector.named("text_completion storyteller", 2)[1]
        recovery = collector.named("recovery")[0]
        self.assertEqual(recovery.span.parent_span_id, whole.span.span_id)
        self.assertGreater(recovery.span.end_time_unix_nano, recovery.span.start_time_unix_nano)

    def test_score_has_a_span_for_each_text(self):
        collector = self.collector()
        up = self.up("--otlp_endpoint", collector.address)
        texts = [generation_pb2.ScoreInput(text=text) for text in ("Once upon a time", "There was a king")]
        Client(up.endpoint).unary("Score", generation_pb2.ScoreRequest(inputs=texts), generation_pb2.ScoreResponse)
        whole = collector.named("score storyteller")[0]
        told = collector.wait(lambda told: told if len(told) >= 7 else None)
        texts = children(told, whole)
        self.assertEqual([each.span.name for each in texts], ["text", "text"])
        for text in texts:
            self.check_phases(told, text, ["queue", "score"])

    def test_the_gateways_span_is_the_parent(self):
        collector = self.collector()
        up = self.up("--otlp_endpoint", f"http://{collector.address}", "--http_port", "0")
        address = up.http_address
        body = {"prompt": "Once upon a time", "max_tokens": 5}
        headers = {"traceparent": SAMPLED, "tracestate": "vendor=a,other@b=2"}
        self.assertEqual(call(address, "POST", "/v1/completions", body, headers).status, 200)
        outer = collector.named("POST /v1/completions")[0]
        inner = collector.named("text_completion storyteller")[0]
        self.assertEqual((outer.service, outer.span.parent_span_id.hex()), ("sluice-gateway", CALLER))
        self.assertEqual(inner.span.parent_span_id, outer.span.span_id)
        self.assertEqual(inner.span.trace_id.hex(), TRACE)
        self.assertEqual((outer.span.trace_state, inner.span.trace_state), ("vendor=a,other@b=2",) * 2)
        self.assertEqual(outer.attributes["http.response.status_code"], 200)
        self.assertLessEqual(outer.span.start_time_unix_nano, inner.span.start_time_unix_nano)
        # Without a caller's trace the gateway begins one, and both are in it.
        self.assertEqual(call(address, "POST", "/v1/completions", {"prompt": 5}).status, 400)
        refused = collector.named("POST /v1/completions", 2)[1]
        self.assertEqual(refused.span.parent_span_id, b"")
        self.assertEqual(refused.attributes["error.type"], "400")

    def test_a_dead_or_hanging_collector_changes_nothing_and_is_counted(self):
        silent = self.collector(hangs=True)
        for address in ("127.0.0.1:1", silent.address):  # nobody listens at the one, none of --metrics_port's is it
            with self.subTest(address=address):
                port = free_ports(7)
                up = Up("--otlp_endpoint", address, "--metrics_port", str(port))
                expected = text_of(Client(up.endpoint).generate(request(30, seed=3)))
                self.assertEqual(text_of(Client(up.endpoint).generate(request(30, seed=3))), expected)
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as page:
                    metrics = page.read().decode()
                self.assertIn('sluice_spans_dropped_total{reason="queue_full"} 0', metrics)
                self.assertIn("sluice_spans_exported_total 0", metrics)
                began = time.monotonic()
                up.stop()
                self.assertLess(time.monotonic() - began, 10)

    def test_what_is_left_is_sent_at_the_end(self):
        collector = self.collector()
        up = Up("--otlp_endpoint", collector.address)
        text_of(Client(up.endpoint).generate(request(2)))
        up.stop()
        self.assertIn("text_completion storyteller", [each.span.name for each in collector.told])

    def test_the_environment_says_where_to(self):
        collector = self.collector()
        up = self.up(env={**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{collector.address}", "OTEL_SERVICE_NAME": "stories"})
        text_of(Client(up.endpoint).generate(request(2)))
        self.assertEqual(collector.named("text_completion storyteller")[0].service, "stories")

    def test_the_standards_own_messages_read_it(self):
        if not os.path.exists(os.path.join(HERE, "npm", "node_modules", "@opentelemetry")):
            self.skipTest("OpenTelemetry's messages are not installed: ./dev setup clients")
        collector = self.collector()
        up = self.up("--otlp_endpoint", collector.address)
        text_of(Client(up.endpoint).generate(request(5), metadata=(("traceparent", SAMPLED),)))
        told = collector.wait(lambda told: told if len(told) >= 4 else None)
        with tempfile.NamedTemporaryFile() as file:
            file.write(collector.bytes[0])
            file.flush()
            done = subprocess.run(["node", READER, file.name], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        read = json.loads(done.stdout)
        self.assertEqual([span["name"] for span in read["spans"]], [each.span.name for each in told])
        # Of the flags, which came later, these messages do not know: six bytes of each span.
        self.assertEqual(read["unknownBytes"], 6 * len(told))
        whole = read["spans"][0]
        self.assertEqual((whole["traceId"], whole["parentSpanId"]), (TRACE, CALLER))
        self.assertEqual(int(whole["endTimeUnixNano"]), told[0].span.end_time_unix_nano)
        self.assertEqual(whole["attributes"]["gen_ai.usage.output_tokens"], 5)


if __name__ == "__main__":
    main()
