"""Texts under JSON schemas by seed: whatever finishes validates, on a calm pipeline and on one that is short of room and
whose processes are killed, with the same tokens on both; drawn and searched by beams, by the embedded model and by random
ones with tokenizers of the world's.

Usage: constrained_test.py BIN_DIR PROTO_PYTHON_DIR [unittest arguments]

SLUICE_FULL=1 makes it a thousand texts. The schemas are those of ../shared/json_schema where they are present, else a few
of our own; the tokenizers are those of ../shared/tokenizers.
"""

import collections
import json
import os
import random
import signal
import sys
import tempfile
import threading
import time
import unittest

import random_model
from processes import PROMPT, STORYTELLER, Client, Up, generation_pb2, grpc, status_pb2, tokenizer_pb2

try:
    import jsonschema
except ImportError:
    jsonschema = None

FULL = os.environ.get("SLUICE_FULL") == "1"
SHARED = os.environ.get("SLUICE_TESTDATA", os.path.join(os.path.dirname(STORYTELLER), "..", "..", "shared"))
MASKBENCH = os.path.join(SHARED, "json_schema", "maskbench.jsonl")
OWN = (
    {"type": "object", "required": ["a", "b"], "additionalProperties": False,
     "properties": {"a": {"type": "string", "maxLength": 9}, "b": {"type": "array", "items": {"type": "integer"}, "maxItems": 4}}},
    {"anyOf": [{"type": "integer", "multipleOf": 7, "minimum": 0, "maximum": 1000}, {"enum": ["x", "yé", None, [1, 2]]}]},
    {"$ref": "#/$defs/tree", "$defs": {"tree": {"type": "array", "maxItems": 2, "items": {"$ref": "#/$defs/tree"}}}},
    {"type": "string", "pattern": "^(ab|[0-9]{3})+$", "maxLength": 12},
)
# A schema that can't be kept is refused by name.
REFUSALS = (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.RESOURCE_EXHAUSTED)

# Width 0: drawn, else beams. Brief: what ends strings, arrays and objects is made likelier, so that more texts finish.
Case = collections.namedtuple("Case", "seed schema width brief")
ENDS = ('"', '",', '"}', "}", "]", "}]", "]}")
# Of one sequence; `whole` where the model has ended it.
Text = collections.namedtuple("Text", "tokens text whole")


def schemas():
    if not os.path.exists(MASKBENCH):
        return list(OWN)
    with open(MASKBENCH, encoding="utf-8") as file:
        return list(OWN) + [json.loads(line)["schema"] for line in file]


def cases_of(seed, count):
    """Every sixth is a search by beams."""
    choose, kinds = random.Random(seed), schemas()
    return [Case(seed + i, kinds[i] if i < len(OWN) else choose.choice(kinds), choose.choice((2, 3)) if i % 6 == 5 else 0,
                 i % 3 != 0) for i in range(count)]


def ids_of_ends(client):
    """The last token of each of ENDS."""
    ask = [tokenizer_pb2.TokenizeRequest(text=end.encode(), add_special_tokens=False) for end in ENDS]
    return [client.unary("Tokenize", request, tokenizer_pb2.TokenizeResponse).token_ids[-1] for request in ask]


def request_for(case, ends):
    message = generation_pb2.GenerateRequest(text=PROMPT, max_tokens=240)
    message.sampling.seed = case.seed
    if case.width:
        message.beams.beam_width = message.beams.num_return = case.width
    else:
        message.sampling.temperature = 0.9
    if case.brief:
        message.sampling.logit_bias.update(dict.fromkeys(ends, 5.0))
    message.constraint.json_schema = json.dumps(case.schema)
    return message


def generate(client, message):
    """The texts; None for a schema that is refused."""
    tokens, texts, ends = collections.defaultdict(list), collections.defaultdict(str), []
    try:
        for response in client.generate(message, timeout=280):
            if response.HasField("finished"):
                ends = response.finished.sequences
            else:
                tokens[response.chunk.sequence].extend(response.chunk.token_ids)
                texts[response.chunk.sequence] += response.chunk.text
    except grpc.RpcError as error:
        if error.code() in REFUSALS:
            return None
        raise
    return [Text(tokens[i], texts[i], end.reason == generation_pb2.FINISH_REASON_STOP_TOKEN) for i, end in enumerate(ends)]


class Load:
    """All cases under way, so many at a time."""

    def __init__(self, endpoint, cases, concurrency=12):
        self.endpoint, self.cases, self.ends = endpoint, cases, ids_of_ends(Client(endpoint))
        self.results, self.failures = [None] * len(cases), []
        self.left, self.lock = iter(range(len(cases))), threading.Lock()
        self.threads = [threading.Thread(target=self.run) for _ in range(concurrency)]
        for thread in self.threads:
            thread.start()

    def run(self):
        client = Client(self.endpoint)
        while True:
            with self.lock:
                index = next(self.left, None)
            if index is None:
                return
            try:
                self.results[index] = generate(client, request_for(self.cases[index], self.ends))
            except Exception as error:  # told by the test's own thread
                self.failures.append((self.cases[index], error))

    def is_under_way(self):
        return any(thread.is_alive() for thread in self.threads)

    def wait(self, seconds):
        """Until all are done, or so long."""
        deadline = time.monotonic() + seconds
        while self.is_under_way() and time.monotonic() < deadline:
            self.threads[0].join(0.05)


def kill_now_and_then(load, pipeline, most):
    """Kills its processes in turns while the load goes on; how many."""
    names = ("sluice-sampler", "sluice-shard", "sluice-embedding", "sluice-tokenizer")
    kills = 0
    while load.is_under_way():
        load.wait(0.5 if FULL else 0.15)
        victims = pipeline.pids(names[kills % len(names)])
        if victims and kills < most and load.is_under_way():
            os.kill(victims[0], signal.SIGKILL)
            kills += 1
    return kills


@unittest.skipIf(jsonschema is None, "python3-jsonschema is not installed")
class ConstrainedTest(unittest.TestCase):
    def check(self, cases, results):
        """Validates what finished; how many did."""
        num_whole = 0
        for case, texts in zip(cases, results):
            for text in texts or ():
                if not text.whole:
                    continue
                num_whole += 1
                with self.subTest(seed=case.seed, schema=case.schema, text=text.text):
                    jsonschema.validators.validator_for(case.schema)(case.schema).validate(json.loads(text.text))
        return num_whole

    def hold(self, name, model, cases, tight_flags):
        with Up("--model", model) as calm:
            load = Load(calm.endpoint, cases)
            load.wait(float("inf"))
            self.assertEqual(load.failures, [])
            expected = load.results
        num_whole = self.check(cases, expected)
        num_texts = sum(len(texts or ()) for texts in expected)
        num_refused = sum(texts is None for texts in expected)

        with Up("--model", model, "--pp", "2", *tight_flags) as tight:
            load = Load(tight.endpoint, cases)
            kills = kill_now_and_then(load, tight, 3 + len(cases) // 40)
            status = Client(tight.endpoint).unary("GetStatus", status_pb2.GetStatusRequest(), status_pb2.GetStatusResponse)
        print(f"{name}: {len(cases)} requests, {num_refused} refused; {num_texts} texts, {num_whole} whole; the same through "
              f"{kills} kills and {status.num_preemptions} preemptions", file=sys.stderr)
        self.assertEqual(load.failures, [])
        for case, texts, calm_texts in zip(cases, load.results, expected):
            self.assertEqual(texts, calm_texts, case)
        self.assertGreater(kills, 0)
        self.assertGreater(num_whole, num_texts // 10)
        self.assertLess(num_refused, len(cases) // 4)

    def hold_random_model(self, name, seed):
        tokenizer = os.path.join(SHARED, "tokenizers", name)
        if not os.path.exists(tokenizer):
            self.skipTest(f"there is no {tokenizer}")
        with tempfile.TemporaryDirectory() as folder:
            model = random_model.make(os.path.join(folder, "model"), tokenizer, seed)
            self.hold(f"a random model with the tokenizer of {name}", model, cases_of(seed, 200 if FULL else 24),
                      ("--kv_cache_mib", "1"))

    def test_texts_of_the_embedded_model_validate_through_kills_and_preemption(self):
        self.hold("the embedded model", STORYTELLER, cases_of(15, 400 if FULL else 32), ("--kv_cache_mib", "4"))

    def test_texts_in_the_tokens_of_llama3_validate_through_kills(self):
        self.hold_random_model("llama3", 1000)

    def test_texts_in_the_tokens_of_llama2_validate_through_kills(self):
        self.hold_random_model("llama2", 2000)

    def test_texts_in_the_tokens_of_gpt2_validate_through_kills(self):
        self.hold_random_model("gpt2", 3000)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
