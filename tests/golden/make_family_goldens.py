#!/usr/bin/env python3
"""Writes families/: for each family a model of a few kilobytes with random weights, and its logits
in float64.

    make_family_goldens.py ORACLE [FAMILY ...]

ORACLE is the folder of the NumPy oracle. Each folder has config.json, model.safetensors (BF16),
ids.i32 (token ids) and logits.f64 (a row of vocabulary size for every id), raw and little-endian.
Run it for a family that is added, for that one alone: the others change only where the oracle does.
Read by families_test.py and tests/services/shard/family_goldens_test.cc.
"""

import os
import sys

import numpy as np

LENGTH = 24  # tokens: more than a block of 16 positions
SMALL = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2,
             num_key_value_heads=1, vocab_size=32, max_position_embeddings=32)
# Without the mixtures of experts that these presets have.
LATENT = dict(num_key_value_heads=2, kv_lora_rank=8, qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=5,
              first_k_dense_replace=2)
GPT2 = dict(n_embd=16, n_layer=2, n_head=2, n_positions=32, n_ctx=32, vocab_size=32)



def without(changes, name):
    return {key: value for key, value in changes.items() if key != name}


# family: (the oracle's preset, what is smaller than there)
FAMILIES = {
    "llama": ("llama", SMALL),
    "llama3-rope": ("llama-llama3", SMALL),
    "mistral": ("mistral-window", {**SMALL, "sliding_window": 10}),
    "qwen2": ("qwen2-window", {**SMALL, "sliding_window": 10}),
    "qwen3": ("qwen3", {**SMALL, "head_dim": 8}),
    "smollm3": ("smollm3", {**SMALL, "no_rope_layer_interval": 2}),
    "phi3": ("phi3-partial", {**SMALL, "original_max_position_embeddings": 32}),
    "gemma": ("gemma", {**SMALL, "head_dim": 8}),
    "gpt2": ("gpt2", GPT2),
    "gpt_neox": ("gpt_neox", {**without(SMALL, "num_key_value_heads"), "rotary_pct": 0.5}),
    "deepseek_v2": ("deepseek_v2-yarn", {**SMALL, **LATENT}),
    "deepseek_v3": ("deepseek_v3", {**SMALL, **LATENT, "q_lora_rank": 12}),
    "sluice-learned": ("sluice-learned-layernorm-gelu", SMALL),
    "sluice-interleaved": ("sluice-rope_interleaved-rmsnorm-relu", SMALL),
}


def make(family, folder):
    import decoder
    import make_tiny_model

    preset, changes = FAMILIES[family]
    seed = sum(family.encode())
    config = make_tiny_model.write_model(folder, preset, "BF16", seed=seed, **changes)
    ids = np.random.default_rng(seed).integers(0, config["vocab_size"], LENGTH)
    ids.astype("<i4").tofile(os.path.join(folder, "ids.i32"))
    decoder.load(folder).logits(ids).astype("<f8").tofile(os.path.join(folder, "logits.f64"))


def main():
    oracle, *families = sys.argv[1:]
    sys.path.insert(0, oracle)
    out = os.path.join(os.path.dirname(os.path.abspath(__file__)), "families")
    for family in families or FAMILIES:
        make(family, os.path.join(out, family))


if __name__ == "__main__":
    main()
