"""Sessions over a real listener: every call says for itself who makes it.

Usage: session_tokens_test.py BIN_DIR PROTO_PYTHON_DIR [unittest arguments]
"""

import hashlib
import os
import tempfile
import unittest

from processes import Up, grpc, main, request  # makes sluice.v1 known
from sluice.v1 import generation_session_pb2, status_pb2

OPEN = "/sluice.v1.GenerationSessionService/OpenSession"
STATUS = "/sluice.v1.GenerationService/GetStatus"
TOKENS = {b"one": "first", b"two": "second"}


class SessionTokensTest(unittest.TestCase):
    def test_each_call_is_admitted_by_its_own_token(self):
        with tempfile.TemporaryDirectory() as folder:
            tokens = os.path.join(folder, "tokens")
            with open(tokens, "w") as file:
                file.writelines(f"{hashlib.sha256(token).hexdigest()} {tenant}\n" for token, tenant in TOKENS.items())
            with Up("--tokens", tokens) as up:
                ends, finished = self.run_calls(up.endpoint, [b"Bearer one", b"", b"Bearer wrong", b"Bearer two"])
                self.assertEqual(ends, {1: 0, 2: grpc.StatusCode.UNAUTHENTICATED.value[0],
                                        3: grpc.StatusCode.UNAUTHENTICATED.value[0], 4: 0})
                self.assertEqual(finished, {1, 4})
                for token, tenant in TOKENS.items():
                    self.assertEqual(self.booked(up.endpoint, token), {tenant}, "a call of another, or none")

    @staticmethod
    def run_calls(endpoint, authorizations):
        """{call: code of its end}, and the calls that were finished."""
        opening = generation_session_pb2.OpenSessionRequest()
        for number, authorization in enumerate(authorizations, 1):
            command = opening.commands.add(call=number)
            asked = request(5)
            asked.request_id = "of a session"
            command.start.request = asked.SerializeToString()
            command.start.authorization = authorization
        ends, finished = {}, set()
        with grpc.insecure_channel(endpoint) as channel:
            session = channel.stream_stream(OPEN, request_serializer=lambda message: message.SerializeToString(),
                                            response_deserializer=generation_session_pb2.OpenSessionResponse.FromString)
            for message in session(iter([opening]), timeout=60):  # it ends behind the last call
                for event in message.events:
                    if event.HasField("end"):
                        ends[event.call] = event.end.code
                    elif event.response.HasField("finished"):
                        finished.add(event.call)
        return ends, finished

    @staticmethod
    def booked(endpoint, token):
        """The tenants that the calls were served for, of those that this token's holder may be told of."""
        with grpc.insecure_channel(endpoint) as channel:
            ask = channel.unary_unary(STATUS, request_serializer=status_pb2.GetStatusRequest.SerializeToString,
                                      response_deserializer=status_pb2.GetStatusResponse.FromString)
            status = ask(status_pb2.GetStatusRequest(request_id="of a session"), timeout=60,
                         metadata=(("authorization", f"Bearer {token.decode()}"),))
        return {ended.tenant for ended in status.requests}


if __name__ == "__main__":
    main()
