#!/usr/bin/env python3
"""Writes families/: for each family a model of a few kilobytes with random weights, and its logits
in float64.

    make_family_goldens.py ORACLE [FAMILY ...]

ORACLE is the folder of the NumPy oracle. Each folder has config.json, model.safetensors (BF16),
ids.i32 (token ids) and logits.f64 (a row of vocabulary size for every id), raw and little-endian.
Run it for a family that is added, for that one alone: the others change only where the oracle does.
Read by families_test.py and tests/services/shard/family_goldens_test.cc.
"""

import json
import os
import sys

import numpy as np

LENGTH = 24  # tokens: more than a block of 16 positions
SMALL = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2,
             num_key_value_heads=1, vocab_size=32, max_position_embeddings=32)
MIXTURE = dict(SMALL, moe_intermediate_size=8, num_experts_per_tok=2)
LATENT = dict(MIXTURE, num_key_value_heads=2, kv_lora_rank=8, qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=5)
GPT2 = dict(n_embd=16, n_layer=2, n_head=2, n_positions=32, n_ctx=32, vocab_size=32)



def nested(folder, model_type):
    """Makes the text model of a folder that of one of several models: its configuration below text_config, its tensors
    below model.language_model., and a tensor of a model of images beside them."""
    from safetensors_io import Checkpoint, write_file

    weights = Checkpoint(folder)
    tensors = {name.replace("model.", "model.language_model.", 1): weights[name] for name in weights.entries}
    tensors["model.vision_tower.layers.7.weight"] = np.zeros((2, 2))
    write_file(os.path.join(folder, "model.safetensors"), tensors, "BF16")
    path = os.path.join(folder, "config.json")
    with open(path) as file:
        text = json.load(file)
    with open(path, "w") as file:
        json.dump({"model_type": model_type, "text_config": text, "vision_config": {"hidden_size": 8}}, file, indent=2)


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
    "gemma2": ("gemma2", {**SMALL, "head_dim": 8, "sliding_window": 10, "query_pre_attn_scalar": 20}),
    "gemma3-nested": ("gemma3-linear", {**SMALL, "head_dim": 8, "sliding_window": 10, "sliding_window_pattern": 2}),
    "granite": ("granite", SMALL),
    "olmo3": ("olmo3-yarn", {**SMALL, "sliding_window": 10, "layer_types": ["sliding_attention", "full_attention"]}),
    "cohere2": ("cohere2", {**SMALL, "head_dim": 8, "sliding_window": 10, "sliding_window_pattern": 2}),
    "cohere-qk_norm": ("cohere-qk_norm", SMALL),
    "starcoder2": ("starcoder2-window", {**SMALL, "sliding_window": 10}),
    "stablelm": ("stablelm-parallel", {**SMALL, "partial_rotary_factor": 0.5}),
    "ministral3": ("ministral3", {**SMALL, "head_dim": 8, "rope_parameters": {
        "rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 8,
        "llama_4_scaling_beta": 0.3}}),
    "glm4": ("glm4", {**SMALL, "head_dim": 8}),
    "ernie4_5": ("ernie4_5-bias", {**SMALL, "head_dim": 8}),
    "phi": ("phi-qk_norm", {**SMALL, "num_key_value_heads": 2}),
    "internlm2": ("internlm2", SMALL),
    "minicpm": ("minicpm", {**SMALL, "dim_model_base": 6}),
    "phi3": ("phi3-partial", {**SMALL, "original_max_position_embeddings": 32}),
    "gemma": ("gemma", {**SMALL, "head_dim": 8}),
    "qwen3_moe": ("qwen3_moe-sparse_step", {**MIXTURE, "head_dim": 8, "num_experts": 4, "mlp_only_layers": []}),
    "qwen2_moe": ("qwen2_moe", {**MIXTURE, "num_experts": 4, "shared_expert_intermediate_size": 16}),
    "mixtral": ("mixtral", {**MIXTURE, "num_local_experts": 4}),
    "olmoe": ("olmoe-clip", {**MIXTURE, "num_experts": 4}),
    "glm4_moe": ("glm4_moe", {**MIXTURE, "head_dim": 8, "n_routed_experts": 4}),
    "ernie4_5_moe": ("ernie4_5_moe", {**MIXTURE, "head_dim": 8, "moe_num_experts": 4, "moe_k": 2}),
    "gpt_oss": ("gpt_oss-limit", {**MIXTURE, "head_dim": 8, "num_local_experts": 4, "sliding_window": 10,
                                  "layer_types": ["sliding_attention", "full_attention"]}),
    "llama4": ("llama4", {**MIXTURE, "head_dim": 8, "num_local_experts": 4, "intermediate_size_mlp": 24,
                          "no_rope_layer_interval": 2, "attention_chunk_size": 10, "num_experts_per_tok": 1}),
    "gpt2": ("gpt2", GPT2),
    "gpt_neox": ("gpt_neox", {**without(SMALL, "num_key_value_heads"), "rotary_pct": 0.5}),
    "deepseek_v2": ("deepseek_v2-yarn", LATENT),
    "deepseek_v3": ("deepseek_v3", {**LATENT, "q_lora_rank": 12}),
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
    if family.endswith("-nested"):
        nested(folder, family[:-len("-nested")])


def main():
    oracle, *families = sys.argv[1:]
    sys.path.insert(0, oracle)
    out = os.path.join(os.path.dirname(os.path.abspath(__file__)), "families")
    for family in families or FAMILIES:
        make(family, os.path.join(out, family))


if __name__ == "__main__":
    main()
