"""Servers in front of the real one that do what a busy or a dying one does."""

import time
from concurrent import futures

import grpc
from google.protobuf.any_pb2 import Any
from google.protobuf.duration_pb2 import Duration

RETRY_AFTER = 0.4  # seconds, what a busy server asks for


def _field(number, message):
    """A field that holds a message, on the wire."""
    data = message.SerializeToString() if hasattr(message, "SerializeToString") else message
    assert len(data) < 128
    return bytes([number << 3 | 2, len(data)]) + data


def retry_details():
    """A google.rpc.Status (code = 1, details = 3) with a RetryInfo, for grpc-status-details-bin."""
    delay = _field(1, Duration(seconds=int(RETRY_AFTER), nanos=int(RETRY_AFTER % 1 * 1e9)))
    code = bytes([1 << 3, grpc.StatusCode.RESOURCE_EXHAUSTED.value[0]])
    return code + _field(3, Any(type_url="type.googleapis.com/google.rpc.RetryInfo", value=delay))


def reason_details(message):
    """The same with a message (2), which some clients take from there, and an ErrorInfo (reason = 1, domain = 2)."""
    info = _field(1, b"REQUEST_WORK_EXCEEDED") + _field(2, b"sluice")
    code = bytes([1 << 3, grpc.StatusCode.RESOURCE_EXHAUSTED.value[0]]) + _field(2, message.encode())
    return code + _field(3, Any(type_url="type.googleapis.com/google.rpc.ErrorInfo", value=info))


class FakeServers:
    """Four ports: `busy` puts the first call off, `breaks` passes five events of a stream on and is lost then, and `ends`
    cancels as a server does that shuts down: a stream after five events, and every other call that is no stream. `costly` refuses whatever
    comes, in other words where it has come before."""

    def __init__(self, raw):
        from sluice.v1 import generation_pb2_grpc as rpc

        class Busy(rpc.GenerationServiceServicer):
            first = None

            def Generate(self, request, context):
                now = time.monotonic()
                if Busy.first is None:
                    Busy.first = now
                    context.set_trailing_metadata((("grpc-status-details-bin", retry_details()),))
                    context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many requests wait")
                if now - Busy.first < RETRY_AFTER:
                    context.abort(grpc.StatusCode.INTERNAL, f"came again after {now - Busy.first:.3f} s")
                Busy.first = None  # for the next client
                yield from raw.stub.Generate(request)

        class Breaks(rpc.GenerationServiceServicer):
            def Generate(self, request, context):
                for number, event in enumerate(raw.stub.Generate(request)):
                    if number == 5:
                        context.abort(grpc.StatusCode.UNAVAILABLE, "lost")
                    yield event

        class Ends(rpc.GenerationServiceServicer):
            num_models = 0

            def Generate(self, request, context):
                for number, event in enumerate(raw.stub.Generate(request)):
                    if number == 5:
                        context.abort(grpc.StatusCode.CANCELLED, "")
                    yield event

            def GetModel(self, request, context):
                Ends.num_models += 1
                if Ends.num_models % 2 == 1:
                    context.abort(grpc.StatusCode.CANCELLED, "")
                return raw.stub.GetModel(request)

        class Costly(rpc.GenerationServiceServicer):
            last = None

            def Generate(self, request, context):
                now = time.monotonic()
                again = Costly.last is not None and now - Costly.last < 0.3  # less than two clients are apart
                Costly.last = now
                message = "came again" if again else "takes too much work"
                context.set_trailing_metadata((("grpc-status-details-bin", reason_details(message)),))
                context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, message)

        self.servers = []
        self.busy, self.breaks, self.ends, self.costly = (
            self._serve(rpc, servicer) for servicer in (Busy(), Breaks(), Ends(), Costly()))

    def _serve(self, rpc, servicer):
        server = grpc.server(futures.ThreadPoolExecutor(4))
        rpc.add_GenerationServiceServicer_to_server(servicer, server)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        self.servers.append(server)
        return f"127.0.0.1:{port}"

    def stop(self):
        for server in self.servers:
            server.stop(None)
