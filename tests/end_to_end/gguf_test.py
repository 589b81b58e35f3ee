"""GGUF files against the folders that they were made from and against the oracle."""

import json
import os
import subprocess
import tempfile
import unittest

from processes import SLUICE, Up, main, sluice
from oracle import MISSING, load, np

decoder, gguf_files, gguf_newer, make_tiny_model = load("decoder", "gguf_files", "gguf_newer", "make_tiny_model")

# A preset of the oracle for each layout that files differ in.
FAMILIES = ("llama", "llama-tied", "llama-bias", "llama-head_dim", "llama-linear", "llama-yarn", "llama-llama3", "mistral",
            "mistral-window", "qwen2", "qwen3", "smollm3", "gemma", "phi3", "phi3-partial", "phi3-longrope-long", "gpt2",
            "gpt_neox", "gpt_neox-sequential")
# Further ones, by the oracle's writer. Files do not say how Llama 4's chunks and temperature are.
LLAMA4 = {"attention_chunk_size": 8192, "floor_scale": 8192, "attn_scale": 0.1, "use_qk_norm": True}
FURTHER = {
    **dict.fromkeys(("mixtral", "mixtral-window", "qwen2_moe", "qwen3_moe", "qwen3_moe-sparse_step", "olmoe", "gpt_oss",
                     "deepseek_v2", "deepseek_v2-groups", "deepseek_v2-yarn", "deepseek_v3", "deepseek_v3-yarn",
                     "deepseek_v3-ungrouped", "glm4_moe", "gemma2", "gemma3", "smollm3", "granite", "olmo2", "olmo3",
                     "olmo3-yarn", "cohere", "cohere-qk_norm", "cohere2", "starcoder2", "stablelm", "stablelm-parallel",
                     "ministral3", "glm", "glm4", "ernie4_5", "ernie4_5_moe", "minicpm", "internlm2", "phi", "granitemoe",
                     "granitemoeshared"), {}),
    "gemma3-linear": {"query_pre_attn_scalar": 32},
    "llama4": LLAMA4,
    "llama4-interleaved": LLAMA4,
}
# Families whose tensors have names and layouts of their own.
NEWER = ("qwen3_next", "qwen3_next-dense", "qwen3_5", "qwen3_5-tied", "qwen3_5-text", "qwen3_5_moe", "granite4",
         "granite4-dense", "nemotron_h", "gemma4", "gemma4-sides", "gemma4-moe", "gemma4-text")
SHORT = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "MXFP4")
LONG = ("Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K")
IDS = [int(i) for i in (5 * k * k + 3 * k + 7 for k in range(40))]


def score(model, *flags):
    ids = ",".join(str(i % 320) for i in IDS)
    return json.loads(sluice("score", "--model", model, "--token_ids", ids, "--json", *flags).stdout)["logprobs"][1:]


def oracle_score(folder):
    ids = [i % 320 for i in IDS]
    logits = np.asarray(decoder.load(folder).logits(ids), np.float64)
    logits -= logits.max(axis=1, keepdims=True)
    logprobs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    return [logprobs[row, token] for row, token in enumerate(ids[1:])]


@unittest.skipIf(MISSING, MISSING)
class GgufTest(unittest.TestCase):
    def setUp(self):
        self.place = tempfile.TemporaryDirectory()
        self.addCleanup(self.place.cleanup)

    def path(self, name):
        return os.path.join(self.place.name, name)

    def made(self, preset, name, kind="F32", **how):
        """-> the file of a preset, the folder of its numbers."""
        changes = how.pop("changes", {})
        config = make_tiny_model.ALL_PRESETS[preset]
        if config["model_type"] == "gpt_neox":  # files do not say which GELU
            changes = {**changes, "hidden_act": "gelu"}
        if "longrope" in preset:  # files have F32
            scaling = config["rope_scaling"]
            changes["rope_scaling"] = {key: [float(np.float32(one)) for one in value] if isinstance(value, list) else value
                                       for key, value in scaling.items()}
        folder = self.path(f"{name}-folder")
        make_tiny_model.write_model(folder, preset, seed=3, **changes)
        path = self.path(f"{name}.gguf")
        return path, gguf_files.write(folder, path, kind, **how)

    def expect_close(self, scores, expected, delta=2e-3):
        self.assertEqual(len(scores), len(expected))
        for ours, theirs in zip(scores, expected):
            self.assertAlmostEqual(ours, theirs, delta=delta)

    def test_a_file_has_the_bits_of_its_folder(self):
        for preset in FAMILIES:
            with self.subTest(preset=preset):
                path, folder = self.made(preset, preset)
                scores = score(path, "--weights", "f32")
                self.assertEqual(scores, score(folder, "--weights", "f32"))
                self.expect_close(scores, oracle_score(folder))

    def test_further_families(self):
        for preset, changes in FURTHER.items():
            with self.subTest(preset=preset):
                folder, path = self.path(preset), self.path(f"{preset}.gguf")
                make_tiny_model.write_model(folder, preset, seed=5, **changes)
                gguf_files.write_further(folder, path)
                self.expect_close(score(path, "--weights", "f32"), oracle_score(folder), 5e-4)

    def test_recurrent_families_and_gemma4(self):
        for preset in NEWER:
            with self.subTest(preset=preset):
                folder, path = self.path(preset), self.path(f"{preset}.gguf")
                # Files do not say that weights of experts are as they come.
                changes = {"norm_topk_prob": True} if preset == "qwen3_next-dense" else {}
                make_tiny_model.write_model(folder, preset, seed=5, **changes)
                gguf_newer.write(folder, path)
                self.expect_close(score(path, "--weights", "f32"), score(folder, "--weights", "f32"), 5e-4)

    # Heads of Qwen3.5's states are in another order, whole runs of blocks for the output's columns.
    def test_ranks_and_blocks_of_states(self):
        wide = {"hidden_size": 128, "linear_value_head_dim": 32, "linear_key_head_dim": 32}
        for preset, changes, kind in (("qwen3_5-text", wide, "Q8_0"), ("nemotron_h", {"mamba_head_dim": 32}, "Q8_0"),
                                      ("gemma4-text", {}, "Q4_0")):
            with self.subTest(preset=preset):
                folder, path = self.path(preset), self.path(f"{preset}-{kind}.gguf")
                make_tiny_model.write_model(folder, preset, seed=5, **changes)
                gguf_newer.write(folder, path, kind)
                whole = score(path)
                self.assertEqual(whole, score(path, "--tp", "2", "--pp", "2"))
                self.expect_close(whole, score(path, "--weights", "f32"), 0.3)

    def test_blocks_of_embeddings_and_heads(self):
        for preset, kind in (("llama", "Q8_0"), ("llama-tied", "Q5_0"), ("llama", "Q4_0")):
            with self.subTest(preset=preset, kind=kind):
                path, folder = self.made(preset, f"{preset}-{kind}", kind, plain=kind, changes={"intermediate_size": 192})
                exact = score(path, "--weights", "f32")
                self.assertEqual(exact, score(folder, "--weights", "f32"))
                self.expect_close(score(path), exact, 0.3)

    # By default those blocks are kept that a format of ours holds.
    def test_blocks_of_experts(self):
        for kind in ("Q8_0", "Q4_0", "MXFP4", "Q4_K"):
            with self.subTest(kind=kind):
                folder, path = self.path(f"{kind}-experts"), self.path(f"{kind}-experts.gguf")
                wide = {"hidden_size": 256, "moe_intermediate_size": 256, "head_dim": 64}
                make_tiny_model.write_model(folder, "qwen3_moe", seed=6, **wide)
                gguf_files.write_further(folder, path, kind)
                whole = score(path)
                self.assertEqual(whole, score(path, "--tp", "2", "--pp", "2"))
                # Operands of products are rounded to BF16, by which a few rows choose other experts.
                gaps = [abs(ours - theirs) for ours, theirs in zip(whole, score(path, "--weights", "f32"))]
                self.assertLess(sorted(gaps)[len(gaps) // 2], 0.2)

    def test_every_block_format_has_the_bits_of_its_numbers(self):
        for kind in ("F16", "BF16") + SHORT + LONG:
            with self.subTest(kind=kind):
                wide = {"hidden_size": 256, "intermediate_size": 512} if kind in LONG else {"intermediate_size": 192}
                path, folder = self.made("llama", kind, kind, changes=wide)
                scores = score(path, "--weights", "f32")
                self.assertEqual(scores, score(folder, "--weights", "f32"))
                self.expect_close(scores, oracle_score(folder))

    def test_ranks_stages_and_fused_rows_of_blocks(self):
        for preset, kind in (("llama", "Q4_K"), ("phi3", "Q6_K"), ("gpt2", "Q8_0"), ("gpt_neox", "Q5_K")):
            with self.subTest(preset=preset):
                wide = ({"n_embd": 256} if preset == "gpt2" else {"hidden_size": 256, "intermediate_size": 512})
                path, folder = self.made(preset, f"{preset}-{kind}", kind, changes=wide)
                whole = score(path)
                self.assertEqual(whole, score(path, "--tp", "2", "--pp", "3"))
                self.assertEqual(score(path, "--weights", "f32"), score(folder, "--weights", "f32"))
                # What blocks become by default is what their numbers become.
                self.assertEqual(score(path, "--weights", "int8"), score(folder, "--weights", "int8"))

    def test_a_split_set(self):
        whole, _ = self.made("llama", "whole")
        first, _ = self.made("llama", "split-00001-of-00003", parts=3)
        self.assertEqual(score(whole), score(first))
        second = first.replace("-00001-", "-00002-")
        refused = subprocess.run([SLUICE, "score", "--model", second, "--token_ids", "1,2"], capture_output=True, text=True)
        self.assertIn("is part 2 of 3; accepted: the first of a set", refused.stderr)
        os.remove(second)
        refused = subprocess.run([SLUICE, "score", "--model", first, "--token_ids", "1,2"], capture_output=True, text=True)
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn(f"{second}: ", refused.stderr)

    def test_commands_take_a_file(self):
        path, folder = self.made("llama", "tiny-Q8_0", "Q8_0", changes={"intermediate_size": 192})
        plan = json.loads(sluice("plan", "--model", path, "--json").stdout)
        self.assertEqual(plan["model"], "tiny-Q8_0")
        self.assertEqual(plan["num_parameters"], json.loads(sluice("plan", "--model", folder, "--json").stdout)["num_parameters"])
        refused = subprocess.run([SLUICE, "quantize", path, self.path("out"), "--weights", "int4"], capture_output=True, text=True)
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("is a GGUF file; accepted: a folder", refused.stderr)
        with Up("--model", path) as up:
            status = json.loads(sluice("status", "--endpoint", up.endpoint, "--json").stdout)
            self.assertEqual(status["model"], "tiny-Q8_0")


if __name__ == "__main__":
    main()
