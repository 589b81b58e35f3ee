"""Small models with random weights and the tokenizer of another: they write noise in its tokens.

Nothing but Python's own library: weights are random bytes, read as BF16.
"""

import json
import math
import os
import random
import shutil
import struct

HIDDEN, LAYERS, HEADS, HEAD_DIM, INNER = 64, 2, 4, 16, 128
# The byte with sign and exponent of a number from 1/8 to 1/2, of either sign.
SIGNED = bytes(0x3E | (byte & 0x80) for byte in range(256))
ONE = b"\x80\x3f"


def numbers(draw, count):
    values = bytearray(2 * count)
    values[0::2] = draw.randbytes(count)
    values[1::2] = draw.randbytes(count).translate(SIGNED)
    return bytes(values)


def tensors(draw, vocabulary):
    """Names, shapes and bytes, as Hugging Face's Llama has them."""
    def matrix(name, rows, columns):
        return name, [rows, columns], numbers(draw, rows * columns)

    def norm(name):
        return name, [HIDDEN], ONE * HIDDEN

    yield matrix("model.embed_tokens.weight", vocabulary, HIDDEN)
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}."
        yield norm(prefix + "input_layernorm.weight")
        for name in "qkvo":
            yield matrix(f"{prefix}self_attn.{name}_proj.weight", HIDDEN, HIDDEN)
        yield norm(prefix + "post_attention_layernorm.weight")
        for name, rows, columns in (("gate", INNER, HIDDEN), ("up", INNER, HIDDEN), ("down", HIDDEN, INNER)):
            yield matrix(f"{prefix}mlp.{name}_proj.weight", rows, columns)
    yield norm("model.norm.weight")


STATE_HEADS, STATE_SIZE = 4, 16
HYBRID = {
    "architectures": ["GraniteMoeHybridForCausalLM"], "model_type": "granitemoehybrid", "num_hidden_layers": 3,
    "layer_types": ["mamba", "attention", "mamba"], "num_local_experts": 0, "shared_intermediate_size": INNER,
    "position_embedding_type": "nope", "attention_multiplier": 0.25, "mamba_n_heads": STATE_HEADS, "mamba_d_head": HEAD_DIM,
    "mamba_n_groups": 1, "mamba_d_state": STATE_SIZE, "mamba_d_conv": 4, "mamba_conv_bias": False}


def hybrid_tensors(draw, vocabulary):
    """The same of Granite 4, of which two layers have states in place of keys and values."""
    inner = STATE_HEADS * HEAD_DIM
    channels = inner + 2 * STATE_SIZE

    def matrix(name, *shape):
        return name, list(shape), numbers(draw, math.prod(shape))

    def vector(name, size, value=1.0):
        return name, [size], struct.pack("<f", value)[2:] * size

    yield matrix("model.embed_tokens.weight", vocabulary, HIDDEN)
    for layer, kind in enumerate(HYBRID["layer_types"]):
        prefix = f"model.layers.{layer}."
        yield vector(prefix + "input_layernorm.weight", HIDDEN)
        if kind == "mamba":
            yield matrix(prefix + "mamba.in_proj.weight", inner + channels + STATE_HEADS, HIDDEN)
            yield matrix(prefix + "mamba.conv1d.weight", channels, 1, 4)
            yield vector(prefix + "mamba.dt_bias", STATE_HEADS, -1.0)
            yield vector(prefix + "mamba.A_log", STATE_HEADS, -4.0)  # remembers what was long ago
            yield vector(prefix + "mamba.D", STATE_HEADS)
            yield vector(prefix + "mamba.norm.weight", inner)
            yield matrix(prefix + "mamba.out_proj.weight", HIDDEN, inner)
        else:
            for name in "qkvo":
                yield matrix(f"{prefix}self_attn.{name}_proj.weight", HIDDEN, HIDDEN)
        yield vector(prefix + "post_attention_layernorm.weight", HIDDEN)
        yield matrix(prefix + "shared_mlp.input_linear.weight", 2 * INNER, HIDDEN)
        yield matrix(prefix + "shared_mlp.output_linear.weight", HIDDEN, INNER)
    yield vector("model.norm.weight", HIDDEN)


def vocabulary_of(tokenizer):
    """Its size, and the id of a token that ends texts."""
    with open(os.path.join(tokenizer, "tokenizer.json"), encoding="utf-8") as file:
        content = json.load(file)
    ids = dict(content["model"]["vocab"]) | {token["content"]: token["id"] for token in content["added_tokens"]}
    ends = [ids[name] for name in ("<|end_of_text|>", "<|endoftext|>", "</s>") if name in ids]
    return max(ids.values()) + 1, ends[0]


def make(folder, tokenizer, seed, hybrid=False):
    """Writes a model into `folder` that uses the files of the folder `tokenizer`: of Llama, or with states as well."""
    size, end = vocabulary_of(tokenizer)
    os.makedirs(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        if os.path.exists(os.path.join(tokenizer, name)):
            shutil.copy(os.path.join(tokenizer, name), folder)
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": size, "hidden_size": HIDDEN,
                   "intermediate_size": INNER, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
                   "num_key_value_heads": HEADS, "head_dim": HEAD_DIM, "hidden_act": "silu", "max_position_embeddings": 1024,
                   "rope_theta": 10000.0, "rms_norm_eps": 1e-5, "tie_word_embeddings": True, "torch_dtype": "bfloat16",
                   "eos_token_id": end, **(HYBRID if hybrid else {})}, file)
    header, data, offset = {}, [], 0
    for name, shape, values in (hybrid_tensors if hybrid else tensors)(random.Random(seed), size):
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [offset, offset + len(values)]}
        offset += len(values)
        data.append(values)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(folder, "model.safetensors"), "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.writelines(data)
    return folder
