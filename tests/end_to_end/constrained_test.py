"""Texts under JSON schemas by seed: whatever finishes validates, on a calm pipeline and on one that is short of room and
whose processes are killed, with the same tokens on both.

Usage: constrained_test.py BIN_DIR PROTO_PYTHON_DIR [unittest arguments]

SLUICE_CONSTRAINED_GENERATIONS is how many texts (default 32). The schemas are those of ../shared/json_schema where they
are present, else a few of our own.
"""

import json
import os
import random
import signal
import sys
import threading
import time
import unittest

from processes import PROMPT, STORYTELLER, Client, Up, children_of, generation_pb2, grpc

try:
    import jsonschema
except ImportError:
    jsonschema = None

COUNT = int(os.environ.get("SLUICE_CONSTRAINED_GENERATIONS", "32"))
MASKBENCH = os.path.join(os.path.dirname(STORYTELLER), "..", "..", "shared", "json_schema", "maskbench.jsonl")
OWN = (
    {"type": "object", "required": ["a", "b"], "additionalProperties": False,
     "properties": {"a": {"type": "string", "maxLength": 9}, "b": {"type": "array", "items": {"type": "integer"}, "maxItems": 4}}},
    {"anyOf": [{"type": "integer", "multipleOf": 7, "minimum": 0, "maximum": 1000}, {"enum": ["x", "yé", None, [1, 2]]}]},
    {"$ref": "#/$defs/tree", "$defs": {"tree": {"type": "array", "maxItems": 2, "items": {"$ref": "#/$defs/tree"}}}},
    {"type": "string", "pattern": "^(ab|[0-9]{3})+$", "maxLength": 12},
)
# A schema that can't be kept is refused by name.
REFUSALS = (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.RESOURCE_EXHAUSTED)


def schemas():
    if not os.path.exists(MASKBENCH):
        return list(OWN)
    with open(MASKBENCH, encoding="utf-8") as file:
        return list(OWN) + [json.loads(line)["schema"] for line in file]


def request_for(seed, schema):
    message = generation_pb2.GenerateRequest(text=PROMPT, max_tokens=240)
    message.sampling.temperature = 0.9
    message.sampling.seed = seed
    message.constraint.json_schema = json.dumps(schema)
    return message


def generate(client, message):
    """(tokens, text, whether it is whole); None for a schema that is refused."""
    tokens, text, whole = [], "", False
    try:
        for response in client.generate(message, timeout=250):
            if response.HasField("finished"):
                whole = response.finished.sequences[0].reason == generation_pb2.FINISH_REASON_STOP_TOKEN
            else:
                tokens.extend(response.chunk.token_ids)
                text += response.chunk.text
    except grpc.RpcError as error:
        if error.code() in REFUSALS:
            return None
        raise
    return tokens, text, whole


def generate_all(endpoint, cases, concurrency=8):
    """The results of all cases, in order, as many at a time."""
    results = [None] * len(cases)
    failures = []
    left = iter(range(len(cases)))
    lock = threading.Lock()

    def run():
        client = Client(endpoint)
        while True:
            with lock:
                index = next(left, None)
            if index is None:
                return
            try:
                results[index] = generate(client, request_for(*cases[index]))
            except Exception as error:  # told by the test's own thread
                failures.append((cases[index], error))

    threads = [threading.Thread(target=run) for _ in range(concurrency)]
    for thread in threads:
        thread.start()
    return results, threads, failures


@unittest.skipIf(jsonschema is None, "python3-jsonschema is not installed")
class ConstrainedTest(unittest.TestCase):
    def check(self, cases, results):
        """Validates what finished; how many did."""
        num_whole = 0
        for (seed, schema), result in zip(cases, results):
            if result is None or not result[2]:
                continue
            num_whole += 1
            with self.subTest(seed=seed, schema=schema, text=result[1]):
                jsonschema.validators.validator_for(schema)(schema).validate(json.loads(result[1]))
        return num_whole

    def test_what_finishes_validates_through_kills_and_preemption(self):
        choose = random.Random(15)
        kinds = schemas()
        cases = [(seed, kinds[seed] if seed < len(OWN) else choose.choice(kinds)) for seed in range(COUNT)]
        with Up() as calm:
            expected, threads, failures = generate_all(calm.endpoint, cases)
            for thread in threads:
                thread.join()
            self.assertEqual(failures, [])
        num_whole = self.check(cases, expected)
        num_refused = sum(result is None for result in expected)
        print(f"{COUNT} texts: {num_whole} whole, {num_refused} refused", file=sys.stderr)
        self.assertGreater(num_whole, COUNT // 10)
        self.assertLess(num_refused, COUNT // 4)

        with Up("--pp", "2", "--kv_cache_mib", "4") as tight:
            results, threads, failures = generate_all(tight.endpoint, cases)
            names = ("sluice-sampler", "sluice-shard", "sluice-embedding", "sluice-tokenizer")
            kills = 0
            while any(thread.is_alive() for thread in threads):
                deadline = time.monotonic() + 1.0
                while time.monotonic() < deadline and any(thread.is_alive() for thread in threads):
                    threads[0].join(0.05)
                victims = [p for p, n in children_of(tight.process.pid).items() if n == names[kills % len(names)]]
                if victims and kills < 3 + COUNT // 40:
                    os.kill(victims[0], signal.SIGKILL)
                    kills += 1
        self.assertEqual(failures, [])
        self.assertGreater(kills, 0)
        for case, result, calm_result in zip(cases, results, expected):
            self.assertEqual(result, calm_result, case)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
