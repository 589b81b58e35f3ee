"""Clients that mean no good, or just very many, each a way to take more than one's part. beside.py starts them as a process of
their own:

clients.py PROTO_PYTHON_DIR ENDPOINT ATTACK COUNT

Prints "at work" once its load stands, "done" when it has done its COUNT, and stays until stdin is closed.
"""

import itertools
import json
import sys
import threading

sys.path.insert(0, sys.argv[1])

import grpc  # noqa: E402
from sluice.v1 import generation_pb2, tokenizer_pb2  # noqa: E402

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


def insist_on(requests):
    """COUNT clients at a time, each with the next of `requests` when its last one is over, until stdin is closed. How their
    requests end is counted by code."""
    codes, lock = {}, threading.Lock()
    first = generation_pb2.GenerateRequest()
    first.CopyFrom(next(requests))
    first.max_tokens = 1
    code = read_all(Caller().start(first))
    if code not in (grpc.StatusCode.OK, grpc.StatusCode.RESOURCE_EXHAUSTED):
        return say(f"the attack is none: it ends {code}")

    def insist(caller):
        while True:
            with lock:
                request = next(requests)
            code = read_all(caller.start(request))
            with lock:
                codes[code.name] = codes.get(code.name, 0) + 1
    for _ in range(COUNT):
        threading.Thread(target=insist, args=(Caller(),), daemon=True).start()
    say("at work")
    sys.stdin.read()
    print(codes, file=sys.stderr, flush=True)


def constrained(max_tokens=100):
    request = message(max_tokens)
    request.stop.ignore_eos = False
    return request


def costly_masks():
    """A regex of some sixty bytes whose masks take tens of milliseconds each: every letter that may begin a wait for another
    doubles the states."""
    pattern = "|".join([".*e.{150}t.*", ".*a.{150}o.*", ".*n.{150}i.*", ".*h.{150}s.*"])
    request = constrained()
    request.constraint.regex = pattern
    insist_on(itertools.repeat(request))


def costly_not(variant):
    """Texts that keep one pattern and none of others: states by the thousands."""
    schema = {"type": "string", "pattern": f"^(a|b|[^x]){{0,{60 + variant % 7}}}",
              "not": {"anyOf": [{"pattern": f"{x}.{{{60 + variant % 3}}}{y}"} for x, y in ("et", "ao", "ni", "hs")]}}
    request = constrained()
    request.constraint.json_schema = json.dumps(schema)
    return request


def not_over_patterns():
    insist_on(map(costly_not, itertools.count()))


def fresh_schema(variant):
    """One that takes a good part of a second to compile: whether any string keeps one pattern and not the other is a search
    among thousands of states, for every member."""
    members = {f"{variant}_{i}": {"type": "string", "pattern": f"^(a|b)*a(a|b){{12}}c{{{i}}}$",
                                  "not": {"pattern": "^(a|b)*(a|b){12}c*$"}} for i in range(10)}
    request = constrained(max_tokens=1)
    request.constraint.json_schema = json.dumps({"properties": members})
    return request


def fresh_schemas():
    insist_on(map(fresh_schema, itertools.count()))


def long_texts():
    """COUNT texts of 16 MiB at a time to be tokenized, again and again."""
    request = tokenizer_pb2.TokenizeRequest(text=b"the king went " * ((16 << 20) // 14), count_only=True)
    caller = Caller()
    tokenize = caller.channel.unary_unary(
        "/sluice.v1.GenerationService/Tokenize", request_serializer=tokenizer_pb2.TokenizeRequest.SerializeToString,
        response_deserializer=tokenizer_pb2.TokenizeResponse.FromString)
    tokenize(tokenizer_pb2.TokenizeRequest(text=b"a"), metadata=TENANT)  # the listener knows the connection from then on
    calls = [tokenize.future(request, metadata=TENANT) for _ in range(COUNT)]
    say("at work")
    codes = {}
    for call in calls:
        codes[call.code().name] = codes.get(call.code().name, 0) + 1
    if set(codes) - {"OK", "RESOURCE_EXHAUSTED"}:
        say(f"texts ended {codes}")


def long_chats():
    """COUNT chats of 50 KB at a time, for a template that takes the square of their messages."""
    request = message()
    for i in range(2000):
        request.chat.messages.add(role="user", content=f"message {i:08}")
    insist_on(itertools.repeat(request))


held = globals()[ATTACK]()
say("done")
sys.stdin.read()
