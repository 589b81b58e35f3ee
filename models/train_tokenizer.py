#!/usr/bin/python3
"""Learns the storyteller's byte-level BPE from the training split and writes tokenizer.json.

    python3 train_tokenizer.py                    # about half a minute on one core

Pre-tokens are counted once; every step merges the most frequent adjacent pair of symbols, with
the pair counts updated only for the words that hold it.  Of equally frequent pairs the one with
the lowest token ids (left, then right) is merged first, so the result depends on nothing but the
text.  Ids: 0-255 byte symbols by byte value, then merges as learned, last <|endoftext|>.
"""
import argparse
import collections
import heapq
import json
import pathlib

from bpe import BYTE_SYMBOLS, SPLIT_REGEX, SYMBOL_BYTES, pretokens
from corpus import DEFAULT_MODEL, END_OF_TEXT, add_corpus_flag, read_documents


class MergeLearner:
    """Word and pair counts under a growing list of merges.  Words are lists of token ids."""

    def __init__(self, word_counts):
        """word_counts: how often each word, a string of byte symbols, occurs."""
        self.words = [[SYMBOL_BYTES[symbol] for symbol in word] for word in word_counts]
        self.counts = list(word_counts.values())
        self.pair_counts = collections.Counter()
        self.pair_words = collections.defaultdict(set)   # pair -> words that hold or held it
        for index in range(len(self.words)):
            self.count_pairs(index, 1)
        self.heap = [(-count, pair) for pair, count in self.pair_counts.items()]
        heapq.heapify(self.heap)

    def count_pairs(self, index, sign):
        """Adds (sign 1) or takes away (-1) the pairs of a word; returns the pairs touched."""
        word, count = self.words[index], sign * self.counts[index]
        touched = list(zip(word, word[1:]))
        for pair in touched:
            self.pair_counts[pair] += count
            self.pair_words[pair].add(index)
        return touched

    def most_frequent_pair(self):
        """The pair to merge next.  REQUIRES: some pair is left."""
        while True:
            negative_count, pair = heapq.heappop(self.heap)
            if -negative_count == self.pair_counts[pair]:   # else: an outdated entry
                return pair

    def merge(self, pair, new_token):
        """Replaces `pair` by `new_token` in every word."""
        touched = set()
        for index in self.pair_words.pop(pair):
            touched.update(self.count_pairs(index, -1))
            self.words[index] = merge_pair(self.words[index], pair, new_token)
            touched.update(self.count_pairs(index, 1))
        for changed in touched:
            if self.pair_counts[changed] > 0:
                heapq.heappush(self.heap, (-self.pair_counts[changed], changed))


def merge_pair(word, pair, new_token):
    """`word` with each `pair`, from the left, replaced by `new_token`."""
    merged, at = [], 0
    while at < len(word):
        if tuple(word[at:at + 2]) == pair:
            merged.append(new_token)
            at += 2
        else:
            merged.append(word[at])
            at += 1
    return merged


def learn_merges(documents, vocab_size):
    """(symbols, merges): the string of each id below <|endoftext|>, and pairs of strings."""
    learner = MergeLearner(collections.Counter(word for text in documents
                                               for word in pretokens(text)))
    symbols, merges = list(BYTE_SYMBOLS), []
    while len(symbols) < vocab_size - 1:
        pair = learner.most_frequent_pair()
        learner.merge(pair, len(symbols))
        left, right = (symbols[token] for token in pair)
        merges.append((left, right))
        symbols.append(left + right)
    return symbols, merges


def tokenizer_json(symbols, merges):
    """The content of tokenizer.json."""
    end_id = len(symbols)
    special = {"id": end_id, "content": END_OF_TEXT, "single_word": False, "lstrip": False,
               "rstrip": False, "normalized": False, "special": True}
    split = {"type": "Split", "pattern": {"Regex": SPLIT_REGEX}, "behavior": "Isolated",
             "invert": False}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
                  "use_regex": False}
    start = {"SpecialToken": {"id": END_OF_TEXT, "type_id": 0}}
    first, second = ({"Sequence": {"id": name, "type_id": kind}}
                     for kind, name in enumerate("AB"))
    template = {"type": "TemplateProcessing", "single": [start, first],
                "pair": [start, first, {"SpecialToken": {"id": END_OF_TEXT, "type_id": 1}}, second],
                "special_tokens": {END_OF_TEXT: {"id": END_OF_TEXT, "ids": [end_id],
                                                 "tokens": [END_OF_TEXT]}}}
    model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
             "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
             "ignore_merges": False,
             "vocab": {symbol: token for token, symbol in enumerate(symbols)},
             "merges": [f"{left} {right}" for left, right in merges]}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [special],
            "normalizer": None,
            "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]},
            "post_processor": template,
            "decoder": dict(byte_level, add_prefix_space=True, use_regex=True),
            "model": model}


def tokenizer_config(max_length):
    """The content of tokenizer_config.json."""
    return {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": END_OF_TEXT,
            "eos_token": END_OF_TEXT, "model_max_length": max_length,
            "clean_up_tokenization_spaces": False}


def write_json(path, data):
    path.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add_corpus_flag(parser)
    parser.add_argument("--vocab-size", type=int, default=4096,
                        help="entries in all, <|endoftext|> included (default: %(default)s)")
    parser.add_argument("--out", type=pathlib.Path, default=DEFAULT_MODEL, metavar="FOLDER",
                        help="where to write tokenizer.json and tokenizer_config.json")
    args = parser.parse_args()
    symbols, merges = learn_merges(read_documents(args.corpus, "train"), args.vocab_size)
    args.out.mkdir(parents=True, exist_ok=True)
    write_json(args.out / "tokenizer.json", tokenizer_json(symbols, merges))
    write_json(args.out / "tokenizer_config.json", tokenizer_config(max_length=512))
    print(f"{len(symbols) + 1} entries; last merges: {merges[-5:]}")


if __name__ == "__main__":
    main()
