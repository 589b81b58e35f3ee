"""What the prefix cache costs where it has too little room: the same requests with a pool of blocks that holds all prefixes,
with one that holds half of them and has to evict, and with the prefix cache declined, when everything is computed in as many
blocks. Requests are a document each and a question that nobody asked before; documents come at random, or in turns, when each
has been evicted by the time that it comes again. Every answer is held against that of the first round.

Usage: prefixes.py BIN_DIR PROTO_PYTHON_DIR [--rounds N] [--documents N] [--document_tokens N] [--requests N]
                   [--streams N] [--vocabulary N] [up's flags, such as --model DIR]
"""

import argparse
import concurrent.futures
import os
import random
import statistics
import sys
import time

parser = argparse.ArgumentParser(usage=__doc__)
parser.add_argument("bin")
parser.add_argument("protos")
parser.add_argument("--rounds", type=int, default=3, help="in turns")
parser.add_argument("--documents", type=int, default=12)
parser.add_argument("--document_tokens", type=int, default=400)
parser.add_argument("--requests", type=int, default=96)
parser.add_argument("--streams", type=int, default=4, help="requests at a time")
parser.add_argument("--vocabulary", type=int, default=4000, help="token ids are below it")
OPTIONS, UP_FLAGS = parser.parse_known_args()

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "end_to_end"))
from processes import Client, Up, generation_pb2, status_pb2  # noqa: E402

QUESTION_TOKENS = 16
ANSWER_TOKENS = 8
MIB = 512  # of the pool that holds everything

CASES = (("holds all prefixes", "random", 1, False), ("holds half of them", "random", 0.5, False),
         ("holds half, in turns", "turns", 0.5, False), ("declined", "turns", 0.5, True))


def requests_in(order, declined):
    source = random.Random(7)
    tokens = lambda count: [source.randrange(3, OPTIONS.vocabulary) for _ in range(count)]  # noqa: E731
    documents = [tokens(OPTIONS.document_tokens) for _ in range(OPTIONS.documents)]
    messages = []
    for number in range(OPTIONS.requests):
        document = documents[number % OPTIONS.documents if order == "turns" else source.randrange(OPTIONS.documents)]
        message = generation_pb2.GenerateRequest(max_tokens=ANSWER_TOKENS, decline_prefix_cache=declined)
        message.token_ids.token_ids.extend(document + tokens(QUESTION_TOKENS))
        message.stop.ignore_eos = True
        message.sampling.temperature = 0
        message.drafts.decline = True
        messages.append(message)
    return messages


def pool_mib(part):
    """For so much of what all documents take, questions and answers of the streams included."""
    if part == 1:
        return MIB
    with Up("--kv_cache_mib", str(MIB), *UP_FLAGS) as up:
        cache = status_of(Client(up.endpoint)).kv_cache
    own = OPTIONS.streams * (OPTIONS.document_tokens + QUESTION_TOKENS + ANSWER_TOKENS)
    positions = max(part * OPTIONS.documents * OPTIONS.document_tokens, own)
    return max(1, round(MIB * positions / (cache.num_blocks * cache.block_size)))


def status_of(client):
    return client.unary("GetStatus", status_pb2.GetStatusRequest(), status_pb2.GetStatusResponse)


def answer(client, message):
    begin, first, ids = time.monotonic(), None, []
    for response in client.generate(message):
        if response.HasField("chunk"):
            first = first or time.monotonic() - begin
            ids.extend(response.chunk.token_ids)
    return first, ids


def run(mib, messages):
    """(seconds, first tokens in seconds, answers, status)"""
    with Up("--kv_cache_mib", str(mib), *UP_FLAGS) as up:
        client = Client(up.endpoint)
        warm = generation_pb2.GenerateRequest(max_tokens=4)
        warm.token_ids.token_ids.extend([5, 6, 7])
        answer(client, warm)
        begin = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(OPTIONS.streams) as pool:
            answers = list(pool.map(lambda message: answer(client, message), messages))
        seconds = time.monotonic() - begin
        return seconds, [first for first, _ in answers], [ids for _, ids in answers], status_of(client)


def main():
    pools = {part: pool_mib(part) for _, _, part, _ in CASES}
    seconds, firsts, last, expected = {}, {}, {}, {}
    for _ in range(OPTIONS.rounds):
        for name, order, part, declined in CASES:
            took, first, answers, status = run(pools[part], requests_in(order, declined))
            if expected.setdefault(order, answers) != answers:
                raise SystemExit(f"{name}: other answers than before")
            seconds.setdefault(name, []).append(took)
            firsts.setdefault(name, []).extend(first)
            last[name] = status
    print("| the pool | blocks | computed | found | evicted | seconds | first token p50 (ms) |\n|---|--:|--:|--:|--:|--:|--:|")
    for name, times in seconds.items():
        status = last[name]
        cache = status.kv_cache
        print(f"| {name} | {cache.num_blocks} | {status.num_computed_positions} | {cache.num_hit_positions} "
              f"| {cache.num_evicted_blocks} | {statistics.median(times):.2f} | {1e3 * statistics.median(firsts[name]):.1f} |")
    declined = statistics.median(seconds["declined"])
    for name, times in seconds.items():
        ratios = [own / other for own, other in zip(times, seconds["declined"])]
        print(f"{name}: {statistics.median(times) / declined:.3f} of the time of computing everything "
              f"({min(ratios):.3f} to {max(ratios):.3f})")


if __name__ == "__main__":
    main()
