"""Small models with random weights and the tokenizer of another: they write noise in its tokens.

Nothing but Python's own library: weights are random bytes, read as BF16.
"""

import json
import os
import random
import shutil

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


def vocabulary_of(tokenizer):
    """Its size, and the id of a token that ends texts."""
    with open(os.path.join(tokenizer, "tokenizer.json"), encoding="utf-8") as file:
        content = json.load(file)
    ids = dict(content["model"]["vocab"]) | {token["content"]: token["id"] for token in content["added_tokens"]}
    ends = [ids[name] for name in ("<|end_of_text|>", "<|endoftext|>", "</s>") if name in ids]
    return max(ids.values()) + 1, ends[0]


def make(folder, tokenizer, seed):
    """Writes a model into `folder` that uses the files of the folder `tokenizer`."""
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
                   "eos_token_id": end}, file)
    header, data, offset = {}, [], 0
    for name, shape, values in tensors(random.Random(seed), size):
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [offset, offset + len(values)]}
        offset += len(values)
        data.append(values)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(folder, "model.safetensors"), "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.writelines(data)
    return folder
