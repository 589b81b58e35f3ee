"""Encoder-decoders against the oracle: scores, greedy texts and beams, in one process and through `sluice up` over stages and
ranks whose processes are killed.

Usage: source_test.py BIN_DIR PROTO_PYTHON_DIR [unittest arguments]
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

from processes import SLUICE, Client, Up, generation_pb2, killing, main, sluice, text_of

ORACLE = os.path.join(os.environ.get("SLUICE_TESTDATA", os.path.join(
    os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "shared")), "oracle")
try:
    sys.path.insert(0, ORACLE)
    import numpy as np
    import generate
    import seq2seq
    import tiny_encoders
    MISSING = ""
except ImportError as error:
    MISSING = f"the oracle is not there: {error}"

VOCABULARY = 320
TOLERANCE = 1e-4


def source_of(length):
    return [(5 * k * k + 11 * length * k + 7) % VOCABULARY for k in range(length)]


def flag_of(ids):
    return ",".join(str(each) for each in ids)


def printed(command, model, *flags):
    """-> the objects that a command prints."""
    lines = sluice(command, "--model", model, "--weights", "f32", "--json", *flags).stdout.splitlines()
    return [json.loads(line) for line in lines]


def tokens_of(events):
    return [token for event in events for token in event.get("token_ids", [])]


def ask(source, max_tokens, n=1, beams=0, seed=None):
    message = generation_pb2.GenerateRequest(max_tokens=max_tokens)
    message.source_token_ids.token_ids.extend(source)
    message.stop.ignore_eos = not beams
    if beams:
        message.beams.beam_width = message.beams.num_return = beams
        message.beams.early_stopping = generation_pb2.EARLY_STOPPING_NEVER
        return message
    message.sampling.temperature = 0 if seed is None else 1
    if seed is not None:
        message.sampling.seed = seed
    if n > 1:
        message.n = n
    return message


def texts_of(responses, on_chunk=None):
    """-> the tokens of each sequence."""
    texts = {}
    for response in responses:
        if response.HasField("chunk"):
            texts.setdefault(response.chunk.sequence, []).extend(response.chunk.token_ids)
            if on_chunk:
                on_chunk()
    return [texts[key] for key in sorted(texts)]


@unittest.skipIf(MISSING, MISSING)
class SourceTest(unittest.TestCase):
    def model(self, preset, seed=11, **changes):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        tiny_encoders.write(folder.name, preset, seed=seed, **changes)
        return folder.name, seq2seq.load(folder.name)

    def test_scores_and_texts_of_every_kind(self):
        for preset in tiny_encoders.SEQ2SEQ:
            folder, oracle = self.model(preset)
            for length in (1, 40):
                with self.subTest(preset=preset, length=length):
                    source, text = source_of(length), [oracle.start, *source_of(25)]
                    bound = oracle.given(source)
                    score = printed("score", folder, "--source_ids", flag_of(source), "--token_ids", flag_of(text))[0]
                    self.assertEqual(score["token_ids"], text)
                    expected = generate.token_logprobs(bound, text)
                    self.assertLess(np.abs(np.array(score["logprobs"][1:]) - expected).max(), TOLERANCE)
            greedy = generate.greedy(bound, [oracle.start], 20)
            flags = ("--max_tokens", "20", "--temperature", "0", "--ignore_eos")
            # A prompt alone is the source; beside a source it is what the text begins with.
            self.assertEqual(tokens_of(printed("run", folder, "--token_ids", flag_of(source), *flags)), greedy)
            begun = printed("run", folder, "--source_ids", flag_of(source), "--token_ids", flag_of([oracle.start, *greedy[:3]]), *flags)
            self.assertEqual(tokens_of(begun)[:17], greedy[3:])

    def test_forced_first_token(self):
        folder, oracle = self.model("mbart", forced_bos_token_id=41)
        greedy = generate.greedy(oracle.given(source_of(9)), [oracle.start, 41], 8)
        events = printed("run", folder, "--source_ids", flag_of(source_of(9)), "--max_tokens", "8", "--temperature", "0", "--ignore_eos")
        self.assertEqual(tokens_of(events), greedy)

    def test_the_same_through_stages_ranks_and_kills(self):
        folder, oracle = self.model("t5-flan")
        source = source_of(40)
        greedy = generate.greedy(oracle.given(source), [oracle.start], 60)
        with Up("--model", folder, "--weights", "f32", "--pp", "2", "--tp", "2") as up:
            client = Client(up.endpoint)
            self.assertEqual(texts_of(client.generate(ask(source, 60))), [greedy])
            drawn = texts_of(client.generate(ask(source, 40, n=2, seed=3)))
            self.assertNotEqual(drawn[0], drawn[1])
            found = generate.beam_search(oracle.given(source), [oracle.start], 12, beams=4, eos=(1,))
            self.assertEqual(texts_of(client.generate(ask(source, 12, beams=4))), [list(beam.tokens) for beam in found])
            for name in ("sluice-shard", "sluice-embedding"):
                with self.subTest(killed=name):
                    victim = up.pids(name)[-1]
                    self.assertEqual(texts_of(client.generate(ask(source, 60)), killing(victim, after=5)), [greedy])
                    up.await_replaced(victim)
                    self.assertEqual(texts_of(client.generate(ask(source, 40, n=2, seed=3))), drawn)
            # Other sources that begin alike have blocks of their own.
            for length in (39, 33, 48):
                other = source[:length] if length < 40 else source + source_of(8)
                expected = generate.greedy(oracle.given(other), [oracle.start], 10)
                self.assertEqual(texts_of(client.generate(ask(other, 10))), [expected])
            self.assertEqual(texts_of(client.generate(ask(source, 60))), [greedy])

    def refusal(self, folder, command, *flags):
        result = subprocess.run([SLUICE, command, "--model", folder, *flags], capture_output=True, text=True, timeout=120)
        self.assertNotEqual(result.returncode, 0)
        return result.stderr

    def test_refusals(self):
        folder, _ = self.model("bart")
        self.assertIn("no source: set source_text or source_token_ids", self.refusal(folder, "score", "--token_ids", "2,5"))
        self.assertIn("the source has 129 tokens; accepted: up to 128, the model's context",
                      self.refusal(folder, "run", "--token_ids", flag_of(source_of(129))))
        self.assertIn("--max_step_tokens", self.refusal(folder, "run", "--token_ids", flag_of(source_of(120)), "--max_step_tokens", "64"))
        self.assertIn("accepted: max_tokens of 1 to 127", self.refusal(folder, "run", "--token_ids", "3,4", "--max_tokens", "128"))
        self.assertIn("a source is for encoder-decoders",
                      self.refusal(os.path.join(os.path.dirname(__file__), "..", "..", "models", "storyteller"), "run", "--source_ids", "1,2"))


if __name__ == "__main__":
    main()
