#!/usr/bin/python3
"""Continues a prompt with the exported model: a plain check by eye, without a key/value cache.

    python3 sample.py --prompt "Once upon a time there was a king" --seed 3
"""
import argparse
import json
import pathlib

import torch

from bpe import Tokenizer
from checkpoint import load_model
from corpus import DEFAULT_MODEL
from llama import keep_freed_memory


def draw(logits, temperature, top_p, generator):
    """One token from the smallest set of likeliest tokens whose probabilities reach top_p."""
    probabilities, tokens = torch.softmax(logits / temperature, dim=-1).sort(descending=True)
    before = probabilities.cumsum(0) - probabilities
    probabilities[before >= top_p] = 0.0
    return int(tokens[torch.multinomial(probabilities, 1, generator=generator)])


@torch.no_grad()
def continuation(model, tokens, limit, temperature, top_p, generator):
    """Up to `limit` new tokens after `tokens`, without the <|endoftext|> that may end them."""
    tokens, prompt_length = list(tokens), len(tokens)
    longest = model.config["max_position_embeddings"]
    while len(tokens) < min(prompt_length + limit, longest):
        logits = model.logits(torch.tensor(tokens))[-1]
        token = draw(logits, temperature, top_p, generator)
        if token == model.config["eos_token_id"]:
            break
        tokens.append(token)
    return tokens[prompt_length:]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=pathlib.Path, default=DEFAULT_MODEL, metavar="FOLDER")
    parser.add_argument("--prompt", default="Once upon a time")
    parser.add_argument("--tokens", type=int, default=200, help="at most (default: %(default)s)")
    parser.add_argument("--temperature", type=float, help="(default: generation_config.json's)")
    parser.add_argument("--top-p", type=float, help="(default: generation_config.json's)")
    parser.add_argument("--seed", type=int, default=1, help="(default: %(default)s)")
    args = parser.parse_args()
    defaults = json.loads((args.model / "generation_config.json").read_text(encoding="utf-8"))
    keep_freed_memory()
    torch.set_num_threads(1)
    tokenizer, model = Tokenizer(args.model / "tokenizer.json"), load_model(args.model)
    prompt = [tokenizer.end_of_text] + tokenizer.encode(args.prompt)
    tokens = continuation(model, prompt, args.tokens, args.temperature or defaults["temperature"],
                          args.top_p or defaults["top_p"],
                          torch.Generator().manual_seed(args.seed))
    print(args.prompt + tokenizer.decode(tokens))


if __name__ == "__main__":
    main()
