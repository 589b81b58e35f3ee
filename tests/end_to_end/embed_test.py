"""`sluice embed` against the oracle: every encoder and embedding model that it makes, alone and in batches, over ranks."""

import base64
import json
import os
import subprocess
import tempfile
import unittest
import urllib.error
import urllib.request

from processes import SLUICE, Up, main, sluice
from oracle import MISSING, load, np

encoder, tiny_encoders = load("encoder", "tiny_encoders")

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


WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "king", "had", "a", "daughter", "wolf", "##s", "and", "who", "rules", "?"]


def write_tokenizer(folder):
    """A WordPiece tokenizer as BERT's are, of so few words that texts can be read off as ids."""
    special = {name: {"id": name, "ids": [WORDS.index(name)], "tokens": [name]} for name in ("[CLS]", "[SEP]")}

    def piece(name, type_id=0):
        kind = "Sequence" if len(name) == 1 else "SpecialToken"
        return {kind: {"id": name, "type_id": type_id}}

    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": i, "content": word, "single_word": False, "lstrip": False, "rstrip": False,
                          "normalized": False, "special": True} for i, word in enumerate(WORDS) if word.startswith("[")],
        "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None,
                       "lowercase": True},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "TemplateProcessing", "single": [piece("[CLS]"), piece("A"), piece("[SEP]")],
                           "pair": [piece("[CLS]"), piece("A"), piece("[SEP]"), piece("B", 1), piece("[SEP]", 1)],
                           "special_tokens": special},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                  "max_input_chars_per_word": 100, "vocab": {word: i for i, word in enumerate(WORDS)}},
    }
    with open(os.path.join(folder, "tokenizer.json"), "w", encoding="utf-8") as file:
        json.dump(tokenizer, file)


def ids(*words):
    return [WORDS.index(word) for word in words]


def classifier(folder, labels, seed=5):
    """A BERT with the head of BertForSequenceClassification. -> its scores of ids and types, by the oracle."""
    config = {**tiny_encoders.BERT, "architectures": ["BertForSequenceClassification"],
              "id2label": {str(i): label for i, label in enumerate(labels)}}
    tensors = tiny_encoders.encoder_tensors(config, seed)
    writer = tiny_encoders.Writer(seed + 1)
    writer.linear("bert.pooler.dense", 64, 64)
    writer.linear("classifier", len(labels), 64)
    tiny_encoders.write_json(config, folder, "config.json")
    tiny_encoders.write_checkpoint(folder, {**{"bert." + name: values for name, values in tensors.items()}, **writer.out})
    write_tokenizer(folder)
    model, head = encoder.load(folder), writer.out

    def scores(tokens, types=None):
        pooled = np.tanh(head["bert.pooler.dense.weight"] @ model.hidden(tokens, types)[0] + head["bert.pooler.dense.bias"])
        return head["classifier.weight"] @ pooled + head["classifier.bias"]
    return scores


class Served(Up):
    """`sluice up` of a model behind HTTP."""

    def __init__(self, model, *flags):
        super().__init__("--model", model, "--weights", "f32", "--http_port", "0", *flags)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def post(self, path, **body):
        """-> status, answer."""
        request = urllib.request.Request(f"http://{self.http_address}{path}", json.dumps(body).encode(),
                                         {"content-type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)


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

    def test_embeddings_over_http(self):
        folder = self.made("bert-cls")
        write_tokenizer(folder)
        expected = encoder.load_embedder(folder).embed
        king = ids("[CLS]", "the", "king", "[SEP]")
        with Served(folder, "--tp", "2") as server:
            code, answer = server.post("/v1/embeddings", input=["the King", "wolfs", "who?"], model=os.path.basename(folder))
            self.assertEqual(code, 200, answer)
            self.assertEqual([item["index"] for item in answer["data"]], [0, 1, 2])
            np.testing.assert_allclose(answer["data"][0]["embedding"], expected(king), atol=TOLERANCE)
            np.testing.assert_allclose(answer["data"][1]["embedding"], expected(ids("[CLS]", "wolf", "##s", "[SEP]")), atol=TOLERANCE)
            self.assertEqual(answer["usage"], {"prompt_tokens": 12, "total_tokens": 12})
            code, coded = server.post("/v1/embeddings", input=king, encoding_format="base64")
            self.assertEqual(code, 200, coded)
            numbers = np.frombuffer(base64.b64decode(coded["data"][0]["embedding"]), "<f4")
            np.testing.assert_array_equal(numbers, np.array(answer["data"][0]["embedding"], np.float32))
            code, cut = server.post("/v1/embeddings", input="the king had a daughter", truncate_prompt_tokens=4, dimensions=3)
            self.assertEqual((code, len(cut["data"][0]["embedding"])), (200, 3))
            self.assertEqual(cut["usage"]["prompt_tokens"], 4)
            # Documents are ordered by the angle between embeddings.
            documents = ["a wolf", "the king", {"text": "who rules?"}]
            code, ranked = server.post("/rerank", query="the king", documents=documents, top_n=2)
            self.assertEqual((code, len(ranked["results"])), (200, 2))
            self.assertEqual(ranked["results"][0]["index"], 1)
            self.assertAlmostEqual(ranked["results"][0]["relevance_score"], 1, places=5)
            self.assertEqual(ranked["results"][0]["document"], {"text": "the king"})
            code, refused = server.post("/v1/completions", prompt="the king", max_tokens=3)
            self.assertEqual(code, 400, refused)
            self.assertIn("embeds texts and generates none", refused["error"]["message"])
            code, refused = server.post("/classify", input="the king")
            self.assertEqual(code, 400, refused)
            self.assertIn("classifies no texts", refused["error"]["message"])
            code, refused = server.post("/v1/embeddings", input="a", encoding_format="int8")
            self.assertEqual((code, refused["error"]["param"]), (400, "encoding_format"))

    def test_classifiers_score_pairs_and_texts(self):
        folder = os.path.join(self.place.name, "judge")
        scores = classifier(folder, ["LABEL_0"])

        def expected(document):
            pair = ids("[CLS]", "who", "rules", "?", "[SEP]", *document, "[SEP]")
            return 1 / (1 + np.exp(-scores(pair, [0] * 5 + [1] * (len(pair) - 5))[0]))

        wanted = [expected(("the", "king")), expected(("a", "wolf"))]
        with Served(folder) as server:
            for path in ("/rerank", "/v1/rerank", "/v2/rerank"):
                code, ranked = server.post(path, query="Who rules?", documents=["the king", "a wolf"])
                self.assertEqual(code, 200, ranked)
                got = {item["index"]: item["relevance_score"] for item in ranked["results"]}
                np.testing.assert_allclose([got[0], got[1]], wanted, atol=TOLERANCE)
                order = [item["relevance_score"] for item in ranked["results"]]
                self.assertEqual(order, sorted(order, reverse=True))
                self.assertEqual("document" in ranked["results"][0], path != "/v2/rerank")
            code, scored = server.post("/score", text_1="who rules?", text_2=["the king", "a wolf"])
            self.assertEqual(code, 200, scored)
            np.testing.assert_allclose([item["score"] for item in scored["data"]], wanted, atol=TOLERANCE)
            code, paired = server.post("/score", text_1=["who rules?"] * 2, text_2=["the king", "a wolf"])
            self.assertEqual([item["score"] for item in paired["data"]], [item["score"] for item in scored["data"]])

        folder = os.path.join(self.place.name, "moods")
        scores = classifier(folder, ["sad", "glad", "mad"])
        logits = scores(ids("[CLS]", "a", "daughter", "[SEP]"))
        with Served(folder) as server:
            code, classes = server.post("/classify", input=["a daughter"])
            self.assertEqual(code, 200, classes)
            probabilities = np.exp(logits) / np.exp(logits).sum()
            np.testing.assert_allclose(classes["data"][0]["probs"], probabilities, atol=TOLERANCE)
            self.assertEqual(classes["data"][0]["label"], ["sad", "glad", "mad"][int(np.argmax(logits))])
            code, refused = server.post("/rerank", query="a", documents=["a"])
            self.assertEqual(code, 400, refused)
            self.assertIn("judges no documents", refused["error"]["message"])

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
