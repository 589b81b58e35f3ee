"""LoRA adapters with random weights, in PEFT's folder layout, for models as Llama publishes them. Standard library alone."""

import json
import os
import random
import struct


def write(folder, model, seed, rank=4):
    """Writes one of all projections of the model in the folder `model`; returns `folder`."""
    with open(os.path.join(model, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    hidden, inner, heads = config["hidden_size"], config["intermediate_size"], config["num_attention_heads"]
    head_dim = config.get("head_dim", hidden // heads)
    q, kv = heads * head_dim, config.get("num_key_value_heads", heads) * head_dim
    projections = {"self_attn.q_proj": (q, hidden), "self_attn.k_proj": (kv, hidden), "self_attn.v_proj": (kv, hidden),
                   "self_attn.o_proj": (hidden, q), "mlp.gate_proj": (inner, hidden), "mlp.up_proj": (inner, hidden),
                   "mlp.down_proj": (hidden, inner)}
    draw, header, data = random.Random(seed), {}, bytearray()
    for layer in range(config["num_hidden_layers"]):
        for module, (outputs, inputs) in projections.items():
            for part, shape in (("A", [rank, inputs]), ("B", [outputs, rank])):
                begin = len(data)
                count = shape[0] * shape[1]
                data += struct.pack(f"<{count}f", *(draw.uniform(-1, 1) for _ in range(count)))
                name = f"base_model.model.model.layers.{layer}.{module}.lora_{part}.weight"
                header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, len(data)]}
    os.makedirs(folder, exist_ok=True)
    # The weights first, so that whoever watches for the configuration finds all.
    text = json.dumps(header).encode()
    with open(os.path.join(folder, "adapter_model.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)
    with open(os.path.join(folder, "adapter_config.json"), "w", encoding="utf-8") as file:
        json.dump({"peft_type": "LORA", "bias": "none", "r": rank, "lora_alpha": 0.04}, file)
    return folder
