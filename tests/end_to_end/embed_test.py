"""`sluice embed` against the oracle: every encoder and embedding model that it makes, alone and in batches, over ranks."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

from processes import SLUICE, main, sluice

ORACLE = os.path.join(os.environ.get("SLUICE_TESTDATA", os.path.join(
    os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "shared")), "oracle")
try:
    sys.path.insert(0, ORACLE)
    import numpy as np
    import encoder
    import tiny_encoders
    MISSING = ""
except ImportError as error:
    MISSING = f"the oracle is not there: {error}"

VOCABULARY = 320
LENGTHS = (1, 7, 40, 120)
TOLERANCE = 3e-5


def texts(lengths=LENGTHS):
    return [[(5 * k * k + 11 * length * k + 7) % VOCABULARY for k in range(length)] for length in lengths]


def flag_of(many):
    return ";".join(",".join(str(token) for token in text) for text in many)


def embed(model, many, *flags):
    """-> the lines that are printed, a text each."""
    printed = sluice("embed", "--model", model, "--token_ids", flag_of(many), "--weights", "f32", "--json", *flags).stdout
    return printed.splitlines()


def refusal(model, *flags, command="embed"):
    result = subprocess.run([SLUICE, command, "--model", model, *flags], capture_output=True, text=True, timeout=120)
    return result.returncode, result.stderr


@unittest.skipIf(MISSING, MISSING)
class EmbedTest(unittest.TestCase):
    def setUp(self):
        self.place = tempfile.TemporaryDirectory()
        self.addCleanup(self.place.cleanup)

    def made(self, preset, seed=3, **changes):
        folder = os.path.join(self.place.name, f"{preset}-{seed}")
        tiny_encoders.write(folder, preset, seed=seed, **changes)
        return folder

    def test_every_preset_agrees_with_the_oracle(self):
        for preset in [*tiny_encoders.ENCODERS, "qwen3-embedding", "embeddinggemma"]:
            with self.subTest(preset):
                folder = self.made(preset)
                if os.path.exists(os.path.join(folder, "modules.json")):
                    expected = encoder.load_embedder(folder).embed
                else:  # as sentence-transformers reads such a folder
                    hidden = encoder.load(folder).hidden
                    expected = lambda tokens: hidden(tokens).mean(axis=0)
                lines = embed(folder, texts())
                self.assertEqual(len(lines), len(LENGTHS))
                for text, line in zip(texts(), lines):
                    self.assertEqual(list(json.loads(line)), ["embedding"])
                    np.testing.assert_allclose(json.loads(line)["embedding"], expected(text), rtol=0, atol=TOLERANCE)

    def test_bits_depend_neither_on_neighbours_nor_on_ranks_stages_and_threads(self):
        many = texts((3, 17, 120, 64, 1, 33, 100, 90, 80))
        for preset in ("bert-mean-dense", "xlm-roberta-cls", "modernbert-biases", "embeddinggemma", "qwen3-embedding"):
            with self.subTest(preset):
                folder = self.made(preset)
                together = embed(folder, many)
                self.assertEqual(together, embed(folder, many, "--tp", "2", "--threads", "2"))
                self.assertEqual(together, embed(folder, many, "--tp", "2", "--pp", "2"))
                self.assertEqual(together, embed(folder, many[::-1], "--threads", "1")[::-1])
                for index in (2, 4):
                    self.assertEqual([together[index]], embed(folder, [many[index]]))

    def test_dimensions_and_truncation(self):
        folder = self.made("bert-cls")
        text = texts((40,))
        whole = json.loads(embed(folder, text)[0])["embedding"]
        short = json.loads(embed(folder, text, "--dimensions", "8")[0])["embedding"]
        np.testing.assert_allclose(short, np.array(whole[:8]) / np.linalg.norm(whole[:8]), atol=1e-6)
        self.assertEqual(embed(folder, [text[0][:9]]), embed(folder, text, "--truncate_tokens", "9"))

    def test_refusals_by_name(self):
        bert = self.made("bert-mean")
        long = ",".join("5" for _ in range(129))
        for flags, message in (
                (("--token_ids", long), "the text has 129 tokens, more than this model embeds; accepted: up to 128"),
                (("--token_ids", "5,320"), "token_ids[1] is 320; accepted: 0 to 319"),
                (("--token_ids", "5", "--dimensions", "65"), "dimensions is 65; accepted: 1 to 64"),
                (("--token_ids", "5", "--prompt_name", "query"), 'prompt_name is "query"; accepted: none'),
                (("--text", "a text"), "no tokenizer"),
        ):
            with self.subTest(message):
                code, error = refusal(bert, *flags)
                self.assertNotEqual(code, 0)
                self.assertIn(message, error)
        code, error = refusal(bert, "--token_ids", "5,6", command="score")
        self.assertNotEqual(code, 0)
        self.assertIn("(bert) embeds texts and generates none; accepted: EmbedService.Embed", error)

    def test_a_decoder_without_modules_makes_no_embeddings(self):
        folder = self.made("qwen3-embedding")
        os.remove(os.path.join(folder, "modules.json"))
        import make_tiny_model
        make_tiny_model.write_model(folder, "qwen3", seed=1)
        code, error = refusal(folder, "--token_ids", "5")
        self.assertNotEqual(code, 0)
        self.assertIn("(qwen3) makes no embeddings; accepted: encoders, and folders with a modules.json", error)

    def test_an_unknown_pooling_is_named(self):
        folder = self.made("bert-mean")
        path = os.path.join(folder, "1_Pooling", "config.json")
        with open(path, encoding="utf-8") as file:
            config = json.load(file)
        config["pooling_mode_attention"] = True
        with open(path, "w", encoding="utf-8") as file:
            json.dump(config, file)
        code, error = refusal(folder, "--token_ids", "5")
        self.assertNotEqual(code, 0)
        self.assertIn("1_Pooling/config.json: pooling_mode_attention is true; accepted:", error)


main()
