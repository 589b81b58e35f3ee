"""The shapes of gpt-oss-20b with few of its layers. Standard library alone."""

CONFIG = {"model_type": "gpt_oss", "architectures": ["GptOssForCausalLM"], "hidden_size": 2880, "num_hidden_layers": 4,
           "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64, "intermediate_size": 2880, "vocab_size": 201088,
           "num_local_experts": 32, "num_experts_per_tok": 4, "sliding_window": 128, "rms_norm_eps": 1e-5, "rope_theta": 150000.0,
           "max_position_embeddings": 8192, "attention_bias": True, "swiglu_limit": 7.0, "tie_word_embeddings": False,
           "hidden_act": "silu", "bos_token_id": 1, "eos_token_id": 2, "torch_dtype": "bfloat16",
           "layer_types": ["sliding_attention", "full_attention"] * 2,
           "quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": []}}


def step_bytes(weight_bytes):
    """Of all that the weights of such a model take in memory, what a step of one row reads."""
    config = CONFIG
    of_expert = 3 * config["hidden_size"] * config["intermediate_size"] * 17 // 32
    unread = config["num_local_experts"] - config["num_experts_per_tok"]
    return weight_bytes - unread * of_expert * config["num_hidden_layers"]
