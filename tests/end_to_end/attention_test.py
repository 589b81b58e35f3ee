"""`sluice attention` against the oracle: weights, rollout and lens of every kind of attention."""

import concurrent.futures
import json
import os
import subprocess
import tempfile
import unittest
import xml.dom.minidom

from processes import SLUICE, STORYTELLER, Client, Up, grpc, main, request, sluice, text_of
from oracle import MISSING, load, np
from sluice.v1 import inspect_pb2

attention_maps, decoder, make_tiny_model = load("attention_maps", "decoder", "make_tiny_model")

# A preset for each way to attend. SLUICE_ATTENTION_PRESETS=all takes every one.
PRESETS = ("llama", "llama-dynamic", "mistral-window", "phi3-longrope-long", "gpt2", "gpt_neox", "gemma2", "gemma3",
           "gpt_oss", "deepseek_v2", "deepseek_v3", "llama4", "cohere2", "olmo2", "olmoe-clip", "stablelm", "ministral3",
           "qwen3_next", "granite4", "nemotron_h", "gemma4", "gemma4-sides", "sluice-sinusoidal-layernorm-gelu")
# The oracle leaves out the shared expert of Qwen3-Next, which published models have.
CHANGES = dict.fromkeys(("qwen3_next", "qwen3_next-dense"), {"shared_expert_intermediate_size": 0})
LENGTH = 40
LARGEST_ERROR = 2e-5


def run(*arguments):
    return subprocess.run([SLUICE, "attention", *map(str, arguments)], capture_output=True, text=True, timeout=120)


def ids_of(config, length):
    size = config.get("text_config", config)["vocab_size"]
    return np.random.default_rng(5).integers(0, size, length).tolist()


class AttentionTest(unittest.TestCase):
    TEXT = "Once upon a time there was a little girl"

    @unittest.skipIf(MISSING, MISSING)
    def test_weights_rollout_and_lens_equal_the_oracles(self):
        presets = PRESETS
        if os.environ.get("SLUICE_ATTENTION_PRESETS") == "all":
            presets = tuple(make_tiny_model.ALL_PRESETS)
        for preset in presets:
            with self.subTest(preset=preset), tempfile.TemporaryDirectory() as folder:
                config = make_tiny_model.write_model(folder, preset, seed=11, **CHANGES.get(preset, {}))
                self.hold(folder, ids_of(config, LENGTH))

    def hold(self, folder, ids):
        model = decoder.load(folder)
        done = run("--model", folder, "--token_ids", ",".join(map(str, ids)), "--weights", "f32", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        seen = json.loads(done.stdout)
        maps = attention_maps.attention_maps(model, ids)
        self.assertEqual(np.shape(seen["weights"]), maps.shape)
        self.assertLess(np.abs(np.array(seen["weights"]) - maps).max(), LARGEST_ERROR)
        self.assertEqual(seen["layers"], [index for index, block in enumerate(model.blocks)
                                          if hasattr(block.attention, "weights")])
        done = run("--model", folder, "--token_ids", ",".join(map(str, ids)), "--weights", "f32", "--json",
                   "--rollout", "--lens", 3)
        self.assertEqual(done.returncode, 0, done.stderr)
        seen = json.loads(done.stdout)
        self.assertNotIn("weights", seen)
        self.assertLess(np.abs(np.array(seen["rollout"]) - attention_maps.rollout(maps)).max(), LARGEST_ERROR)
        self.hold_lens(seen["lens"], model, ids)

    def hold_lens(self, lens, model, ids):
        rows = [x for name, x in model.activations(ids) if name.startswith("block.")]
        self.assertEqual([layer["layer"] for layer in lens], list(range(len(rows))))
        for layer, x in zip(lens, rows):
            logits = model.output(x)
            exact = logits - np.log(np.exp(logits - logits.max(1, keepdims=True)).sum(1, keepdims=True)) \
                - logits.max(1, keepdims=True)
            for row, position in enumerate(layer["positions"]):
                best = np.sort(exact[row])[::-1][:3]
                for k, token in enumerate(position["top"]):
                    self.assertAlmostEqual(token["logprob"], exact[row][token["token_id"]], delta=2e-3)
                    self.assertAlmostEqual(token["logprob"], best[k], delta=2e-3)
                if row + 1 < len(ids):
                    self.assertAlmostEqual(position["next_logprob"], exact[row][ids[row + 1]], delta=2e-3)
            self.assertIsNone(layer["positions"][-1]["next_logprob"])

    def seen(self, *flags):
        return json.loads(sluice("attention", "--model", STORYTELLER, *flags, self.TEXT, "--json").stdout)

    def test_a_layer_and_a_head_are_those_of_the_whole(self):
        whole, part = self.seen(), self.seen("--layer", "1", "--head", "2")
        self.assertEqual(part["layers"], [1])
        self.assertEqual(part["heads"], [2])
        self.assertEqual(part["weights"], [[whole["weights"][1][2]]])
        self.assertEqual("".join(part["tokens"][1:]).strip(), self.TEXT)

    def test_the_last_layer_says_what_the_model_says(self):
        seen = self.seen("--lens", "2")
        score = json.loads(sluice("score", "--model", STORYTELLER, "--token_ids", ",".join(map(str, seen["token_ids"])),
                                  "--json", "--top", "2").stdout)
        last = seen["lens"][-1]["positions"]
        for row, position in enumerate(last[:-1]):
            self.assertAlmostEqual(position["next_logprob"], score["logprobs"][row + 1], delta=1e-3)
            self.assertEqual([t["token_id"] for t in position["top"]], [t["token_id"] for t in score["top"][row + 1]])

    def test_texts_have_at_most_80_columns(self):
        for flags in ((), ("--layer", "0"), ("--layer", "0", "--head", "0"), ("--rollout", "--lens", "5")):
            text = sluice("attention", "--model", STORYTELLER, *flags, self.TEXT).stdout
            self.assertLessEqual(max(map(len, text.splitlines())), 80, text)
        self.assertRegex(text, r'rollout over all layers\n')
        self.assertRegex(text, r'\n +0  0\.\d{3} "')

    def test_pictures_are_svg_with_each_token(self):
        with tempfile.TemporaryDirectory() as folder:
            for flags, cells in ((("--layer", "0", "--head", "0"), 20), (("--rollout",), 20), ((), 200)):
                path = os.path.join(folder, "a.svg")
                done = sluice("attention", "--model", STORYTELLER, *flags, "--svg", path, self.TEXT)
                self.assertEqual(done.stdout, "")
                with open(path) as file:
                    picture = file.read()
                xml.dom.minidom.parseString(picture)
                self.assertGreater(picture.count("<rect"), cells)
                self.assertIn("prefers-color-scheme: dark", picture)
                self.assertIn("reads", picture)
                if flags:
                    self.assertIn("girl", picture)

    def test_errors_say_what_there_is(self):
        for arguments, pattern in (
                (("--layer", "99", "x"), r"layer is 99; accepted: 0 to \d+"),
                (("--head", "99", "x"), r"head is 99; accepted: 0 to \d+"),
                (("--lens", "21", "x"), r"lens is 21; accepted: 0 to 20"),
                (("--token_ids", "1,999999"), r"token_ids\[1\] is 999999; accepted: 0 to \d+"),
                (("--token_ids", ",".join(["1"] * 1025)), r"the text has 1025 tokens; accepted: 1 to \d+"),
                (("--token_ids", "1", "x"), r"give exactly one of TEXT and --token_ids"),
                (("--lens", "1", "--svg", "x.svg", "x"), r"--svg draws weights")):
            done = run("--model", STORYTELLER, *arguments)
            self.assertNotEqual(done.returncode, 0)
            self.assertRegex(done.stderr, pattern)
            self.assertEqual(done.stdout, "")

    def test_a_pipeline_of_any_shape_answers_as_a_folder_does(self):
        alone = self.seen("--layer", "2", "--rollout", "--lens", "2")
        up = Up("--tp", "2", "--pp", "2")
        self.addCleanup(up.stop)
        flags = ("--endpoint", up.endpoint, "--layer", "2", "--rollout", "--lens", "2", "--json", self.TEXT)
        self.assertEqual(json.loads(sluice("attention", *flags).stdout), alone)
        for ask, code, words in (
                ({"weights": True, "layers": [77]}, grpc.StatusCode.INVALID_ARGUMENT, "layer is 77; accepted: 0 to"),
                ({}, grpc.StatusCode.INVALID_ARGUMENT, "nothing is asked for: set weights, rollout or lens")):
            with self.assertRaises(grpc.RpcError) as raised:
                self.inspect(up, text=self.TEXT, **ask)
            self.assertEqual(raised.exception.code(), code)
            self.assertIn(words, raised.exception.details())
        self.hold_beside_serving(up)

    def inspect(self, up, timeout=60, **ask):
        call = Client(up.endpoint).channel.unary_unary(
            "/sluice.v1.InspectService/Inspect", request_serializer=inspect_pb2.InspectRequest.SerializeToString,
            response_deserializer=inspect_pb2.InspectResponse.FromString)
        return call(inspect_pb2.InspectRequest(**ask), timeout=timeout)

    def hold_beside_serving(self, up):
        """Texts written meanwhile are the same, and a caller who leaves takes the process with him."""
        client = Client(up.endpoint)
        expected = text_of(client.generate(request(60, seed=4)))
        with self.assertRaises(grpc.RpcError) as raised:
            self.inspect(up, timeout=0.2, text="a king " * 200, rollout=True)
        self.assertEqual(raised.exception.code(), grpc.StatusCode.DEADLINE_EXCEEDED)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            looks = [pool.submit(self.inspect, up, text=self.TEXT, rollout=True) for _ in range(3)]
            self.assertEqual(text_of(client.generate(request(60, seed=4))), expected)
            rollouts = [list(look.result().rollout) for look in looks]
        self.assertEqual(rollouts[0], rollouts[1])
        num_tokens = len(looks[0].result().token_ids)
        self.assertEqual(len(rollouts[0]), num_tokens * (num_tokens + 1) // 2)

    def test_is_refused_by_name_where_it_is_turned_off(self):
        up = Up("--inspect_threads", "0")
        self.addCleanup(up.stop)
        done = run("--endpoint", up.endpoint, self.TEXT)
        self.assertEqual(done.returncode, 1)
        self.assertIn("it was started with --inspect_threads 0", done.stderr)


if __name__ == "__main__":
    main()
