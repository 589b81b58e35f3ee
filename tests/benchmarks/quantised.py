"""Models in the formats that others quantise them to, with random weights: GGUF blocks, AWQ and GPTQ folders of the shape of a
random model, and a folder of gpt-oss' shapes in MXFP4. Speed is that of real ones, text is noise; scales keep activations finite.
"""

import json
import os
import struct

import numpy

import gguf
import gpt_oss

GROUP = 128  # of AWQ and GPTQ
# Bytes of a block, its weights, the number of its type, general.file_type, and how a random one is made of random bytes.
BLOCKS = {"Q4_0": (18, 32, 2, 2), "Q8_0": (34, 32, 8, 7), "Q4_K": (144, 256, 12, 15), "Q6_K": (210, 256, 14, 18)}
SPREAD = {"Q4_0": 4.6, "Q8_0": 74.0, "Q4_K": 18.0, "Q6_K": 590.0}  # standard deviation of what scales are multiplied with


def half(value, count):
    return numpy.full(count, value, numpy.float16).view(numpy.uint8).reshape(count, 2)


def blocks(kind, rows, columns, random):
    """The bytes of a matrix whose weights have the deviation 1 / sqrt(columns)."""
    size, weights, _, _ = BLOCKS[kind]
    count = rows * columns // weights
    raw = random.integers(0, 256, (count, size), numpy.uint8)
    scale = half(1 / numpy.sqrt(columns) / SPREAD[kind], count)
    if kind == "Q6_K":
        raw[:, 192:208] = random.integers(0, 17, (count, 16), numpy.uint8)
        raw[:, 208:210] = scale
        return raw
    raw[:, :2] = scale
    if kind == "Q4_K":
        raw[:, 2:4] = half(7.5 / numpy.sqrt(columns) / SPREAD[kind], count)
        raw[:, 4:16] = 0x9A  # the same scale and minimum for all parts
    return raw


def _config(folder):
    with open(os.path.join(folder, "config.json")) as file:
        return json.load(file)


def _names(config):
    """{name: shape} of the matrices of a Llama model, the embedding and the head last."""
    hidden, inner, head = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    shapes = {}
    for layer in range(config["num_hidden_layers"]):
        for part, shape in (("self_attn.q_proj", (heads * head, hidden)), ("self_attn.k_proj", (kv_heads * head, hidden)),
                            ("self_attn.v_proj", (kv_heads * head, hidden)), ("self_attn.o_proj", (hidden, heads * head)),
                            ("mlp.gate_proj", (inner, hidden)), ("mlp.up_proj", (inner, hidden)), ("mlp.down_proj", (hidden, inner))):
            shapes[f"model.layers.{layer}.{part}"] = shape
    return shapes


def _norms(config):
    names = ["model.norm"]
    for layer in range(config["num_hidden_layers"]):
        names += [f"model.layers.{layer}.{norm}" for norm in ("input_layernorm", "post_attention_layernorm")]
    return names


def write_gguf(folder, path, kind):
    """The shape of `folder` with layers of `kind`, and the head as Q6_K, or with Q8_0 as that."""
    config, random = _config(folder), numpy.random.default_rng(0)
    hidden, vocabulary = config["hidden_size"], config["vocab_size"]
    head = "Q8_0" if kind == "Q8_0" else "Q6_K"
    tensors = [(gguf.tensor_name("model.embed_tokens.weight"), (vocabulary, hidden), head)]
    tensors += [(gguf.tensor_name(name + ".weight"), shape, kind) for name, shape in _names(config).items()]
    tensors += [(gguf.tensor_name(name + ".weight"), (hidden,), "F32") for name in _norms(config)]
    if not config["tie_word_embeddings"]:
        tensors.append((gguf.tensor_name("lm_head.weight"), (vocabulary, hidden), head))

    def data(shape, of):
        return numpy.ones(shape, "<f4") if of == "F32" else blocks(of, *shape, random)

    def size(shape, of):
        return 4 * shape[0] if of == "F32" else shape[0] * shape[1] // BLOCKS[of][1] * BLOCKS[of][0]

    fields = gguf.metadata(config, file_type=BLOCKS[kind][3])
    with open(path, "wb") as file:
        infos, offset = [], 0
        for name, shape, of in tensors:
            number = gguf.F32 if of == "F32" else BLOCKS[of][2]
            infos.append(gguf.tensor_info(name, shape, number, offset))
            offset += gguf.aligned(size(shape, of))
        file.write(gguf.head(infos, fields))
        for _, shape, of in tensors:
            raw = data(shape, of).tobytes()
            file.write(raw + bytes(gguf.aligned(len(raw)) - len(raw)))


def write_safetensors(path, tensors):
    """tensors: {name: (dtype, array)}; BF16 as uint16."""
    header, offset = {}, 0
    for name, (dtype, values) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(values.shape), "data_offsets": [offset, offset + values.nbytes]}
        offset += values.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, values in tensors.values():
            file.write(values.tobytes())


def bf16(values):
    return (numpy.ascontiguousarray(values, "<f4").view("<u4") >> 16).astype("<u2")


def normal(random, *shape):
    return bf16(random.standard_normal(shape, numpy.float32) / numpy.sqrt(shape[-1]))


def _folder(path, config, tensors):
    os.makedirs(path, exist_ok=True)
    with open(os.path.join(path, "config.json"), "w") as file:
        json.dump(config, file, indent=1)
    write_safetensors(os.path.join(path, "model.safetensors"), tensors)


def write_packed(folder, path, layout):
    """The shape of `folder` as AWQ (gemm) or GPTQ, 4 bits in groups of 128; the head stays BF16, as files have it."""
    config, random = _config(folder), numpy.random.default_rng(0)
    hidden, vocabulary = config["hidden_size"], config["vocab_size"]
    tensors = {"model.embed_tokens.weight": ("BF16", normal(random, vocabulary, hidden)),
               "lm_head.weight": ("BF16", normal(random, vocabulary, hidden))}
    tensors.update({name + ".weight": ("BF16", bf16(numpy.ones(hidden))) for name in _norms(config)})
    for name, (outputs, inputs) in _names(config).items():
        words = (inputs, outputs // 8) if layout == "awq" else (inputs // 8, outputs)
        codes = random.integers(-2**31, 2**31, words, numpy.int64).astype("<i4")
        zeros = numpy.full((inputs // GROUP, outputs // 8), 0x77777777, "<i4")  # GPTQ's are one less than they count
        scale = 1 / numpy.sqrt(inputs) / SPREAD["Q4_0"]
        tensors.update({name + ".qweight": ("I32", codes), name + ".qzeros": ("I32", zeros),
                        name + ".scales": ("F16", numpy.full((inputs // GROUP, outputs), scale, "<f2"))})
        if layout == "gptq":
            tensors[name + ".g_idx"] = ("I32", (numpy.arange(inputs) // GROUP).astype("<i4"))
    scheme = {"quant_method": layout, "bits": 4, "group_size": GROUP}
    scheme.update({"version": "gemm", "zero_point": True} if layout == "awq" else {"desc_act": False, "sym": True})
    _folder(path, {**config, "tie_word_embeddings": False, "quantization_config": scheme}, tensors)


def write_gpt_oss(path):
    config, random = gpt_oss.CONFIG, numpy.random.default_rng(0)
    hidden, experts, width = config["hidden_size"], config["num_local_experts"], config["intermediate_size"]
    heads, kv_heads, head = config["num_attention_heads"], config["num_key_value_heads"], config["head_dim"]
    tensors = {"model.embed_tokens.weight": ("BF16", normal(random, config["vocab_size"], hidden)),
               "lm_head.weight": ("BF16", normal(random, config["vocab_size"], hidden)),
               "model.norm.weight": ("BF16", bf16(numpy.ones(hidden)))}
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."
        for norm in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"{prefix}{norm}.weight"] = ("BF16", bf16(numpy.ones(hidden)))
        for part, outputs, inputs in (("q", heads * head, hidden), ("k", kv_heads * head, hidden), ("v", kv_heads * head, hidden),
                                      ("o", hidden, heads * head)):
            tensors[f"{prefix}self_attn.{part}_proj.weight"] = ("BF16", normal(random, outputs, inputs))
            tensors[f"{prefix}self_attn.{part}_proj.bias"] = ("BF16", bf16(numpy.zeros(outputs)))
        tensors[f"{prefix}self_attn.sinks"] = ("BF16", bf16(numpy.zeros(heads)))
        tensors[f"{prefix}mlp.router.weight"] = ("BF16", normal(random, experts, hidden))
        tensors[f"{prefix}mlp.router.bias"] = ("BF16", bf16(numpy.zeros(experts)))
        for part, outputs, inputs in (("gate_up", 2 * width, hidden), ("down", hidden, width)):
            stem = f"{prefix}mlp.experts.{part}_proj"
            shape = (experts, outputs, inputs // 32)
            # Numbers of E2M1 have a deviation of 2.9.
            power = round(127 - numpy.log2(2.9 * numpy.sqrt(inputs)))
            tensors[stem + "_blocks"] = ("U8", random.integers(0, 256, (*shape, 16), numpy.uint8))
            tensors[stem + "_scales"] = ("U8", numpy.full(shape, power, numpy.uint8))
            tensors[stem + "_bias"] = ("BF16", bf16(numpy.zeros((experts, outputs))))
    _folder(path, config, tensors)
