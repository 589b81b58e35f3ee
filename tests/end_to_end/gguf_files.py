"""Model folders as GGUF files, laid out as llama.cpp's converter does it, for tests: the families that Sluice serves, every
block format, split sets. Stands on the oracle's container and block formats.
"""

import json
import os
import re

import numpy as np

import decoder  # noqa: F401  loaded first: the others extend it
import families
import gguf_blocks
import gguf_file
import gguf_models
import newer_families  # noqa: F401  extends families' tables
from safetensors_io import Checkpoint, write_checkpoint

ARCHITECTURES = {"llama": "llama", "mistral": "llama", "qwen2": "qwen2", "qwen3": "qwen3", "smollm3": "smollm3",
                 "gemma": "gemma", "phi3": "phi3", "gpt2": "gpt2", "gpt_neox": "gptneox"}
PAIRED = {"llama", "mistral", "smollm3"}  # rows of q and k become neighbouring pairs
NAMES = {
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "ln_1": "attn_norm", "ln_2": "ffn_norm",
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    "self_attn.qkv_proj": "attn_qkv", "attn.c_attn": "attn_qkv", "attention.query_key_value": "attn_qkv",
    "attn.c_proj": "attn_output", "attention.dense": "attn_output", "mlp.gate_up_proj": "ffn_up",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "mlp.c_fc": "ffn_up",
    "mlp.c_proj": "ffn_down", "mlp.dense_h_to_4h": "ffn_up", "mlp.dense_4h_to_h": "ffn_down"}
OUTSIDE = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
           "transformer.wte": "token_embd", "transformer.wpe": "position_embd", "transformer.ln_f": "output_norm",
           "gpt_neox.embed_in": "token_embd", "gpt_neox.final_layer_norm": "output_norm", "embed_out": "output"}
LAYER = re.compile(r"(?:model\.layers|transformer\.h|gpt_neox\.layers)\.(\d+)\.(.*)")

# Where the F16 scales of a block are, for formats that the oracle does not encode.
SCALES = {"Q4_1": (0, 2), "Q5_0": (0,), "Q5_1": (0, 2), "Q2_K": (80, 82), "Q3_K": (108,), "Q5_K": (0, 2)}


def renamed(name):
    stem, _, suffix = name.rpartition(".")
    layer = LAYER.fullmatch(stem)
    return f"blk.{layer[1]}.{NAMES[layer[2]]}.{suffix}" if layer else f"{OUTSIDE[stem]}.{suffix}"


def arranged(config, name, values):
    """A tensor's elements in the order in which the file has them."""
    family = config["model_type"]
    heads = config.get("num_attention_heads") or config["n_head"]
    kv_heads = config.get("num_key_value_heads") or heads
    if family == "gpt2" and values.ndim == 2 and LAYER.match(name):
        return values.T
    if family in PAIRED and (".q_proj." in name or ".k_proj." in name):
        of = heads if ".q_proj." in name else kv_heads
        return values.reshape(of, 2, -1, *values.shape[1:]).swapaxes(1, 2).reshape(values.shape)
    if ".query_key_value." in name:  # q, k, v of every head -> all q, all k, all v
        return values.reshape(heads, 3, -1, *values.shape[1:]).swapaxes(0, 1).reshape(values.shape)
    return values


def encoded(values, kind):
    """-> bytes; in formats without an encoder any blocks, of weights as large as these."""
    values = np.ascontiguousarray(values, np.float64)
    if kind in gguf_file.PLAIN or kind in gguf_blocks.ENCODERS:
        if kind == "BF16":
            return (np.ascontiguousarray(values, "<f4").view("<u4") >> 16).astype("<u2").tobytes()
        return (np.ascontiguousarray(values, gguf_file.PLAIN[kind]).tobytes() if kind in gguf_file.PLAIN
                else gguf_blocks.quantise(values, kind))
    raw = gguf_blocks.random_blocks(kind, values.size // gguf_blocks.BLOCKS[kind][0], seed=values.size)
    factor = values.std() / gguf_blocks.BLOCKS[kind][2](raw).std()
    for start in SCALES[kind]:
        scale = gguf_blocks.halves(raw, start) * factor
        raw[:, start:start + 2] = gguf_blocks.f16_bytes(scale.astype(np.float16))
    return raw.tobytes()


def metadata(config):
    family = config["model_type"]
    get = config.get
    heads = get("num_attention_heads") or get("n_head")
    hidden = get("hidden_size") or get("n_embd")
    head_dim = get("head_dim") or hidden // heads
    values = {
        "context_length": get("max_position_embeddings") or get("n_positions"), "embedding_length": hidden,
        "block_count": get("num_hidden_layers") or get("n_layer"),
        "feed_forward_length": get("intermediate_size") or 4 * hidden, "attention.head_count": heads}
    if family not in ("gpt2", "gpt_neox"):
        values["attention.head_count_kv"] = config["num_key_value_heads"]
        values["attention.layer_norm_rms_epsilon"] = float(config["rms_norm_eps"])
        values["attention.key_length"] = values["attention.value_length"] = head_dim
    else:
        values["attention.layer_norm_epsilon"] = float(get("layer_norm_eps") or get("layer_norm_epsilon"))
    if family != "gpt2":
        scaling = get("rope_scaling") or {}
        values["rope.freq_base"] = float(get("rope_theta") or get("rotary_emb_base"))
        values["rope.dimension_count"] = int(head_dim * get("partial_rotary_factor", get("rotary_pct", 1.0)))
        kind = scaling.get("rope_type") or scaling.get("type")
        if kind in ("linear", "yarn"):
            values.update({"rope.scaling.type": kind, "rope.scaling.factor": float(scaling["factor"])})
        original = scaling.get("original_max_position_embeddings") or get("original_max_position_embeddings")
        if original and kind:
            values["rope.scaling.original_context_length"] = original
    if family == "gpt_neox":
        values["use_parallel_residual"] = config["use_parallel_residual"]
    if family in ("mistral", "phi3") and get("sliding_window"):
        values["attention.sliding_window"] = config["sliding_window"]
    architecture = ARCHITECTURES[family]
    return {"general.architecture": architecture, "tokenizer.ggml.model": "none",
            "tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.eos_token_id": 2,
            **{f"{architecture}.{key}": value for key, value in values.items()}}


def rope_tensors(config):
    """Divisors of frequencies, which files have as tensors."""
    scaling = config.get("rope_scaling") or {}
    kind = scaling.get("rope_type") or scaling.get("type")
    if kind == "longrope":
        return {f"rope_factors_{length}.weight": np.array(scaling[f"{length}_factor"]) for length in ("long", "short")}
    if kind != "llama3":
        return {}
    head_dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    low, high, factor = scaling["low_freq_factor"], scaling["high_freq_factor"], scaling["factor"]
    old = scaling["original_max_position_embeddings"]
    divisors = []
    for frequency in config["rope_theta"] ** (-np.arange(0, head_dim, 2) / head_dim):
        turns = old * frequency / (2 * np.pi)
        smooth = np.clip((turns - low) / (high - low), 0, 1)
        divisors.append(1 / ((1 - smooth) / factor + smooth))
    return {"rope_freqs.weight": np.array(divisors)}


def entry_bytes(name, shape, kind, offset):
    head = gguf_file.packed_string(name) + len(shape).to_bytes(4, "little")
    head += b"".join(size.to_bytes(8, "little") for size in shape[::-1])
    return head + gguf_file.NUMBERS[kind].to_bytes(4, "little") + offset.to_bytes(8, "little")


def write_container(path, values, tensors):
    """tensors: {name: (shape, kind, bytes)}."""
    head = b"GGUF" + (3).to_bytes(4, "little") + len(tensors).to_bytes(8, "little") + len(values).to_bytes(8, "little")
    for name, value in values.items():
        kind, raw = gguf_file.packed_value(value)
        head += gguf_file.packed_string(name) + kind.to_bytes(4, "little") + raw
    body = b""
    for name, (shape, kind, raw) in tensors.items():
        head += entry_bytes(name, shape, kind, len(body))
        body += raw + bytes(-len(raw) % gguf_file.ALIGNMENT)
    with open(path, "wb") as file:
        file.write(head + bytes(-len(head) % gguf_file.ALIGNMENT) + body)


def write(folder, path, kind="F32", plain="F32", parts=1, **extra):
    """A folder in F32 as `path`, matrices of the layers in `kind`, the others in `plain`. -> the F32 folder of the numbers
    that the file then holds, beside it.

    parts: writes a split set; `path` is that of its first file."""
    with open(os.path.join(folder, "config.json")) as file:
        config = json.load(file)
    weights = Checkpoint(folder)
    shift = 1.0 if config["model_type"] == "gemma" else 0.0
    tensors, numbers = {}, {}
    for name in weights.entries:
        values = np.asarray(weights[name], np.float64)
        is_norm = values.ndim == 1 and name.endswith("norm.weight")
        order = arranged(config, name, np.arange(values.size).reshape(values.shape))
        stored = values.ravel()[order] + (shift if is_norm else 0.0)
        as_kind = (kind if LAYER.match(name) else plain) if values.ndim == 2 else "F32"
        raw = encoded(stored, as_kind)
        tensors[renamed(name)] = (stored.shape, as_kind, raw)
        held = gguf_file.tensor(raw, 0, list(stored.shape), as_kind) - (shift if is_norm else 0.0)
        back = np.empty(values.size)
        back[order.ravel()] = held.ravel()
        numbers[name] = back.reshape(values.shape)
    for name, values in rope_tensors(config).items():
        tensors[name] = (values.shape, "F32", encoded(values, "F32"))
    values = {**metadata(config), **extra}
    names = list(tensors)
    for part in range(parts):
        chunk = {name: tensors[name] for name in names[part * len(names) // parts:(part + 1) * len(names) // parts]}
        of_set = {"split.no": part, "split.count": parts, "split.tensors.count": len(names)} if parts > 1 else {}
        name = path.replace("-00001-of-", f"-{part + 1:05d}-of-")
        write_container(name, {**(values if part == 0 else {"general.architecture": values["general.architecture"]}),
                               **of_set}, chunk)
    beside = path + ".numbers"
    os.makedirs(beside, exist_ok=True)
    with open(os.path.join(beside, "config.json"), "w") as file:
        json.dump(config, file)
    write_checkpoint(beside, numbers, "F32")
    return beside


# ---- Families that the oracle writes, and those that are called and laid out like one of these

class Tensors:
    """What gguf_models reads of a checkpoint."""

    def __init__(self, tensors):
        self.entries = self.tensors = tensors

    def __getitem__(self, name):
        return self.tensors[name]


def as_granite(config, weights):
    """MiniCPM has Granite's names and pairs of rows."""
    layers, hidden = config["num_hidden_layers"], config["hidden_size"]
    return {name: weights[name] for name in weights.entries}, {
        "embedding_scale": float(config["scale_emb"]), "residual_scale": config["scale_depth"] / layers ** 0.5,
        "logit_scale": hidden / config["dim_model_base"]}


def as_llama(config, weights):
    """InternLM 2: q, k and v of every KV head are below each other."""
    heads, kv_heads, dim = decoder.head_shape(config)
    names = {"attention.wo": "self_attn.o_proj", "feed_forward.w1": "mlp.gate_proj", "feed_forward.w3": "mlp.up_proj",
             "feed_forward.w2": "mlp.down_proj", "attention_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
             "model.tok_embeddings": "model.embed_tokens", "output.": "lm_head."}
    out = {}
    for name in weights.entries:
        values = weights[name]
        if ".attention.wqkv." in name:
            by_head = values.reshape(kv_heads, heads // kv_heads + 2, dim, -1)
            for part, rows in (("q", by_head[:, :-2]), ("k", by_head[:, -2]), ("v", by_head[:, -1])):
                own = rows.reshape(-1, *values.shape[1:])
                out[name.replace("attention.wqkv", f"self_attn.{part}_proj")] = own
            continue
        for theirs, ours in names.items():
            name = name.replace(theirs, ours)
        out[name] = values
    return out, {}


def as_starcoder2(config, weights):
    """Phi-2."""
    names = {"self_attn.dense": "self_attn.o_proj", "mlp.fc1": "mlp.c_fc", "mlp.fc2": "mlp.c_proj",
             "final_layernorm": "norm"}
    out = {}
    for name in weights.entries:
        values = weights[name]
        for theirs, ours in names.items():
            name = name.replace(theirs, ours)
        out[name] = values
    return out, {}


def as_mixtral(config, weights):
    """Granite's mixtures: gates and ups of all experts in one, and those of the shared expert."""
    out, extra = {}, {}
    for name in weights.entries:
        values, stem = weights[name], name.split("block_sparse_moe")[0]
        if "block_sparse_moe.input_linear" in name:
            for index, expert in enumerate(values):
                out[f"{stem}block_sparse_moe.experts.{index}.w1.weight"], \
                    out[f"{stem}block_sparse_moe.experts.{index}.w3.weight"] = np.split(expert, 2)
        elif "block_sparse_moe.output_linear" in name:
            for index, expert in enumerate(values):
                out[f"{stem}block_sparse_moe.experts.{index}.w2.weight"] = expert
        elif "shared_mlp.input_linear" in name:
            shared = name.replace("shared_mlp.input_linear", "mlp.shared_expert.{}_proj")
            out[shared.format("gate")], out[shared.format("up")] = np.split(values, 2)
            extra["expert_shared_feed_forward_length"] = len(values) // 2
        else:
            out[name.replace("router.layer", "gate").replace("shared_mlp.output_linear", "mlp.shared_expert.down_proj")] = values
    return out, extra


LIKE = {"minicpm": ("minicpm", "granite", as_granite), "internlm2": ("internlm2", "llama", as_llama),
        "phi": ("phi2", "starcoder2", as_starcoder2), "granitemoe": ("granitemoe", "mixtral", as_mixtral),
        "granitemoeshared": ("granitemoe", "mixtral", as_mixtral)}


def write_further(folder, path, kind="F32"):
    """A folder of one of these families as `path`, projections and experts in `kind`."""
    with open(os.path.join(folder, "config.json")) as file:
        given = json.load(file)
    if given["model_type"] in gguf_models.ARCHITECTURES:
        return gguf_models.write(folder, path, kind)
    architecture, like, arrange = LIKE[given["model_type"]]
    config = {**families.DEFAULTS[given["model_type"]], **given}
    tensors, extra = arrange(config, Checkpoint(folder))
    config["model_type"] = like
    theirs = gguf_models.ARCHITECTURES[like]
    values = {**gguf_models.metadata(config), **{f"{theirs}.{key}": value for key, value in extra.items()}}
    values = {key.replace(theirs + ".", architecture + ".", 1) if key.startswith(theirs + ".") else key: value
              for key, value in values.items()}
    found = gguf_models.tensors(config, Tensors(tensors))
    matrix = re.compile(r"blk\.\d+\.(attn|ffn)_(q|k|v|output|gate|up|down|gate_exps|up_exps|down_exps)\.weight")
    gguf_file.write(path, {**values, "general.architecture": architecture},
                    {name: (array, kind if matrix.fullmatch(name) else "F32") for name, array in found.items()})
