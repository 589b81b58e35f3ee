#!/usr/bin/python3
"""Perplexity of held-out text by type of weights, as a table in Markdown.

The text is cut at paragraphs into windows that fit the model's context, each of which `sluice score`
scores by itself; their negative log-likelihoods are added up. A model's rows score the same tokens.
"""
import argparse
import json
import math
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
TYPES = [("f32", "f32"), ("bf16", "f32"), ("bf16", "bf16"), ("int8", "f32"), ("fp8", "f32"), ("fp8-w8a8", "f32"), ("int4", "f32"),
         ("bf16", "fp8"), ("fp8", "fp8")]
SEPARATOR = "<|endoftext|>\n"


def windows_of(text, size):
    """Paragraphs joined to windows of at most `size` characters."""
    window = ""
    for paragraph in text.split("\n\n"):
        paragraph = paragraph.strip()
        if window and len(window) + len(paragraph) + 2 > size:
            yield window
            window = ""
        window = f"{window}\n\n{paragraph}" if window else paragraph
        while len(window) > size:
            yield window[:size]
            window = window[size:]
    if window:
        yield window


def score(args, model, window, weights, kv_dtype):
    """(scored tokens, nats) of one window."""
    command = [args.sluice, "score", "--model", model, "--weights", weights, "--kv_dtype", kv_dtype,
               "--file", "-", "--json"]
    answer = subprocess.run(command, input=window, text=True, check=True, stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL)
    logprobs = json.loads(answer.stdout)["logprobs"][1:]
    return len(logprobs), -sum(logprobs)


def perplexity(args, model, windows, weights, kv_dtype):
    """(tokens, perplexity) of all windows."""
    scores = [score(args, model, window, weights, kv_dtype) for window in windows]
    tokens = sum(count for count, _ in scores)
    return tokens, math.exp(sum(nats for _, nats in scores) / tokens)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sluice", default=ROOT / "build/release/bin/sluice", metavar="PROGRAM")
    parser.add_argument("--text", type=pathlib.Path, metavar="FILE",
                        default=ROOT / "../shared/corpus/stories.valid.txt")
    parser.add_argument("--characters", type=int, default=1000, help="of a window")
    parser.add_argument("--windows", type=int, default=30, help="scored, from the text's start")
    parser.add_argument("models", nargs="+", metavar="MODEL[:CHARACTERS]")
    args = parser.parse_args()
    documents = args.text.read_text(encoding="utf-8").split(SEPARATOR)
    print("| model | tokens | weights | keys and values | perplexity | against bf16 |")
    print("|---|---|---|---|---|---|")
    for entry in args.models:
        model, _, characters = entry.partition(":")
        size = int(characters or args.characters)
        windows = [window for document in documents for window in windows_of(document, size)]
        rows = [(weights, kv_dtype, *perplexity(args, model, windows[:args.windows], weights, kv_dtype))
                for weights, kv_dtype in TYPES]
        baseline = next(row[3] for row in rows if row[:2] == ("bf16", "f32"))
        for weights, kv_dtype, tokens, value in rows:
            print(f"| {pathlib.Path(model).name} | {tokens} | {weights} | {kv_dtype} | {value:.3f} | "
                  f"{(value / baseline - 1) * 100:+.2f} % |", flush=True)


if __name__ == "__main__":
    main()
