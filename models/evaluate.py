#!/usr/bin/python3
"""Held-out perplexity of the exported model: bfloat16 weights, float32 arithmetic.

A document is scored in windows of at most 512 input tokens, the first from its start and each
next one 256 later.  The first window scores all its targets, the others only those that the
windows before have not scored, so that a token is predicted from at least 256 tokens before it,
or from the whole document so far.  <|endoftext|> starts a document unscored; the one that ends it
is scored.
"""
import argparse
import pathlib

import torch

from bpe import Tokenizer
from checkpoint import load_model
from corpus import DEFAULT_MODEL, add_corpus_flag
from heldout import document_nats, held_out, report
from llama import keep_freed_memory

LENGTH, STRIDE = 512, 256


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add_corpus_flag(parser)
    parser.add_argument("--model", type=pathlib.Path, default=DEFAULT_MODEL, metavar="FOLDER")
    args = parser.parse_args()
    keep_freed_memory()
    torch.set_num_threads(1)
    model = load_model(args.model)
    documents, characters = held_out(Tokenizer(args.model / "tokenizer.json"), args.corpus)
    nats = sum(document_nats(model, document, LENGTH, STRIDE) for document in documents)
    report("model", nats, sum(len(document) - 1 for document in documents), characters)


if __name__ == "__main__":
    main()
