"""Clients that mean no good, or just very many, each a way to take more than one's part. beside.py starts them as a process of
their own:

clients.py PROTO_PYTHON_DIR ENDPOINT ATTACK COUNT

Prints "at work" once its load stands, "done" when it has done its COUNT, and stays until stdin is closed.
"""

import sys
import threading

sys.path.insert(0, sys.argv[1])

import grpc  # noqa: E402
from sluice.v1 import generation_pb2  # noqa: E402

ENDPOINT, ATTACK, COUNT = sys.argv[2], sys.argv[3], int(sys.argv[4])
GENERATE = "/sluice.v1.GenerationService/Generate"
TENANT = (("sluice-tenant", "hostile"),)
PROMPT = "Once upon a time there was a king who"
OPTIONS = [("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]


def message(max_tokens=100, **fields):
    request = generation_pb2.GenerateRequest(text=PROMPT, max_tokens=max_tokens, **fields)
    request.stop.ignore_eos = True
    return request


class Caller:
    def __init__(self):
        self.channel = grpc.insecure_channel(ENDPOINT, OPTIONS)
        self.method = self.channel.unary_stream(
            GENERATE, request_serializer=generation_pb2.GenerateRequest.SerializeToString,
            response_deserializer=generation_pb2.GenerateResponse.FromString)

    def start(self, request):
        return self.method(request, metadata=TENANT)


def read_all(call):
    try:
        for _ in call:
            pass
    except grpc.RpcError as error:
        return error.code()
    return grpc.StatusCode.OK


def say(word):
    print(word, flush=True)


def many_calls():
    """COUNT calls at once, which are sent again when they are refused or over."""
    callers = [Caller() for _ in range(8)]
    calls = [callers[i % 8].start(message()) for i in range(COUNT)]
    say("at work")
    for i, call in enumerate(calls):
        read_all(call)
        if i < COUNT // 2:
            calls.append(callers[i % 8].start(message()))
    return calls


def top_priority():
    """COUNT clients, each asking for the highest priority again and again."""
    def insist():
        caller = Caller()
        for _ in range(50):
            code = read_all(caller.start(message(priority=2**31 - 1)))
            if code != grpc.StatusCode.INVALID_ARGUMENT:
                say(f"the highest priority ended {code}")
    threads = [threading.Thread(target=insist) for _ in range(COUNT)]
    say("at work")
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def long_lists():
    """COUNT requests with eight million stop token ids."""
    request = message()
    request.stop.stop_token_ids.extend(range(8))
    request.stop.stop_token_ids.extend([7] * 8_000_000)
    caller = Caller()
    say("at work")
    for _ in range(COUNT):
        read_all(caller.start(request))


def never_reads():
    """COUNT calls that make much text and read none of it."""
    caller = Caller()
    request = message(max_tokens=480, n=16, logprobs=20)
    calls = [caller.start(request) for _ in range(COUNT)]
    say("at work")
    return calls


def disconnects():
    """COUNT calls left as soon as they are sent, some of them after the first token."""
    caller = Caller()
    say("at work")
    for i in range(COUNT):
        call = caller.start(message())
        if i % 10 == 0:
            try:
                next(call)
            except grpc.RpcError:
                pass
        call.cancel()


def at_the_limits():
    """COUNT rounds of requests that are as large as they may be, and one larger."""
    caller = Caller()
    requests = [
        message(max_tokens=1, n=16), message(max_tokens=512),
        generation_pb2.GenerateRequest(text="the king " * 100_000, max_tokens=8),
        generation_pb2.GenerateRequest(token_ids=generation_pb2.TokenIds(token_ids=[5] * 511), max_tokens=1),
        generation_pb2.GenerateRequest(token_ids=generation_pb2.TokenIds(token_ids=[5] * 512), max_tokens=1),
        generation_pb2.GenerateRequest(token_ids=generation_pb2.TokenIds(token_ids=[5] * 4_000_000), max_tokens=1),
        message(request_id="x" * 128), message(request_id="x" * 129),
    ]
    requests.append(message())
    requests[-1].stop.stop_strings.extend([chr(97 + i % 26) * 1024 for i in range(64)])
    requests.append(message())
    requests[-1].stop.stop_token_ids.extend(range(1024))
    say("at work")
    for _ in range(COUNT):
        for call in [caller.start(request) for request in requests]:
            read_all(call)


def many_parts():
    """COUNT requests of every kind with ten million empty messages in them: two bytes each, a hundred once they are parsed."""
    messages = b"\x0a\x00" * 10_000_000
    chat, length = b"", len(messages)
    while length > 127:
        chat += bytes([length & 127 | 128])
        length >>= 7
    group = b"\xa3\x06\x22\x01\x07\xa4\x06"  # unknown; what it holds is no chat
    chat = group + b"\x22" + chat + bytes([length]) + messages
    channel = Caller().channel
    say("at work")
    for _ in range(COUNT):
        for method, body in (("Generate", chat), ("Score", messages), ("ApplyChatTemplate", messages), ("Tokenize", messages),
                             ("GetModel", messages)):
            call = channel.unary_stream("/sluice.v1.GenerationService/" + method)
            code = read_all(call(body, metadata=TENANT))
            if code not in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.RESOURCE_EXHAUSTED):
                say(f"{method} of ten million messages ended {code}")


def busy_tenant():
    """COUNT streams at a time, each begun again when it ends."""
    callers = [Caller() for _ in range(4)]
    standing = threading.Event()

    def insist(caller):
        while not standing.is_set():
            read_all(caller.start(message(max_tokens=200)))
    for i in range(COUNT):
        threading.Thread(target=insist, args=(callers[i % 4],), daemon=True).start()
    say("at work")
    sys.stdin.read()


held = globals()[ATTACK]()
say("done")
sys.stdin.read()
