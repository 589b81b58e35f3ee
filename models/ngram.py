#!/usr/bin/python3
"""The yardstick: an interpolated modified Kneser-Ney 5-gram model over the same tokens.

    python3 ngram.py                              # trains, checks, prints held-out perplexity

Chen and Goodman 1998, "An Empirical Study of Smoothing Techniques for Language Modeling",
section 3: for a history h and a token w,

    p_n(w | h) = max(c(hw) - D(c(hw)), 0) / c(h*) + g(h) p_(n-1)(w | h without its first token)

with c the count at the highest order, and below it the number of different tokens seen before
hw (the plain count where h starts a document, since nothing precedes it).  D(1), D(2), D(3+) come
from the counts of counts of each order; g(h) is the discounted mass; p_0 = 1 / V.  A history that
was never seen leaves the prediction to the next lower order.
"""
import argparse
import pathlib

import numpy as np

from bpe import Tokenizer
from corpus import DEFAULT_MODEL, add_corpus_flag, encode_documents, read_documents
from heldout import held_out, report

TOKEN_BITS = 12    # an n-gram of up to 5 tokens is one int64, its first token in the highest bits


def ngram_keys(documents, order):
    """One key for each place in the documents where an n-gram ends; never across documents."""
    keys = []
    for document in documents:
        tokens = np.asarray(document, dtype=np.int64)
        count = max(len(tokens) - order + 1, 0)
        keys.append(sum(tokens[i:i + count] << TOKEN_BITS * (order - 1 - i) for i in range(order)))
    return np.concatenate(keys)


def discounts(counts):
    """D(0) = 0, D(1), D(2), D(3+) as an array."""
    n = [np.count_nonzero(counts == value) for value in range(5)]
    y = n[1] / (n[1] + 2 * n[2])
    return np.array([0.0] + [k - (k + 1) * y * n[k + 1] / n[k] for k in (1, 2, 3)])


class Table:
    """The n-grams of one order: keys with discounted counts, histories with sum and g(h)."""

    def __init__(self, keys, counts):
        """keys: sorted, distinct."""
        discount = discounts(counts)[np.minimum(counts, 3)]
        self.keys, self.discounted = keys, counts - discount
        self.histories, first = np.unique(keys >> TOKEN_BITS, return_index=True)
        self.sums = np.add.reduceat(counts, first).astype(float)
        self.backoffs = np.add.reduceat(discount, first) / self.sums

    def interpolate(self, keys, lower):
        """p_n for n-gram keys, given p_(n-1) in `lower`."""
        history, seen = find(self.histories, keys >> TOKEN_BITS)
        ngram, counted = find(self.keys, keys)
        direct = np.where(counted, self.discounted[ngram], 0.0) / self.sums[history]
        return np.where(seen, direct + self.backoffs[history] * lower, lower)


def find(sorted_keys, keys):
    """(index, found): where each key is in sorted_keys; index is any valid one if not found."""
    index = np.minimum(np.searchsorted(sorted_keys, keys), len(sorted_keys) - 1)
    return index, sorted_keys[index] == keys


class KneserNey:
    """The model.  A document is <|endoftext|>, text, <|endoftext|>; its first token is given."""

    def __init__(self, documents, order, vocab_size, start_token):
        self.order, self.vocab_size = order, vocab_size
        self.tables = []    # highest order first while building
        longer = None       # the distinct keys of the order above
        for n in range(order, 0, -1):
            keys, counts = np.unique(ngram_keys(documents, n), return_counts=True)
            if longer is not None:
                keys, counts = self.preceding_tokens(keys, counts, longer, n, start_token)
            self.tables.append(Table(keys, counts))
            longer = keys
        self.tables.reverse()

    @staticmethod
    def preceding_tokens(keys, counts, longer, n, start_token):
        """Replaces counts by numbers of different preceding tokens, except at starts."""
        suffixes, preceding = np.unique(longer & ((1 << TOKEN_BITS * n) - 1), return_counts=True)
        index, found = find(suffixes, keys)
        starts = keys >> TOKEN_BITS * (n - 1) == start_token
        starts &= n > 1    # as a unigram it is only predicted at the ends
        counts = np.where(starts, counts, np.where(found, preceding[index], 0))
        return keys[counts > 0], counts[counts > 0]

    def probabilities(self, history, tokens):
        """p(token | history) for an array of tokens; history: the document's tokens before."""
        tokens = np.asarray(tokens, dtype=np.int64)
        history = history[-(self.order - 1):]
        result, keys = np.full(tokens.shape, 1 / self.vocab_size), tokens
        for n, table in enumerate(self.tables[:len(history) + 1]):
            if n:
                keys = keys + (int(history[-n]) << TOKEN_BITS * n)
            result = table.interpolate(keys, result)
        return result

    def document_nats(self, document):
        """Negative log-likelihood of all tokens but the first."""
        tokens = np.asarray(document, dtype=np.int64)
        result, keys = np.full(len(tokens) - 1, 1 / self.vocab_size), tokens[1:]
        for n, table in enumerate(self.tables):
            if n:    # only places with n tokens before them have this order's key
                keys = keys[1 if n > 1 else 0:] + (tokens[:len(tokens) - n] << TOKEN_BITS * n)
            result[max(n - 1, 0):] = table.interpolate(keys, result[max(n - 1, 0):])
        return -np.log(result).sum()


def check_sums(model, documents, samples, seed=1):
    """Largest |sum of p over the vocabulary - 1| for histories drawn from the documents."""
    random, worst = np.random.default_rng(seed), 0.0
    everything = np.arange(model.vocab_size)
    for index in range(samples):
        document = documents[random.integers(len(documents))]
        length = min(index % (2 * model.order) + 1, len(document) - 1)    # starts ...
        begin = 0 if index % 2 else random.integers(len(document) - length)    # ... and insides
        total = model.probabilities(document[begin:begin + length], everything).sum()
        worst = max(worst, abs(total - 1))
    return worst


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add_corpus_flag(parser)
    parser.add_argument("--order", type=int, default=5, choices=range(2, 6), help="(default: 5)")
    parser.add_argument("--check", type=int, default=400, metavar="HISTORIES",
                        help="histories whose distribution must sum to 1 (default: %(default)s)")
    parser.add_argument("--tokenizer", type=pathlib.Path, default=DEFAULT_MODEL, metavar="FOLDER",
                        help="folder with tokenizer.json")
    args = parser.parse_args()
    tokenizer = Tokenizer(args.tokenizer / "tokenizer.json")
    assert tokenizer.size <= 1 << TOKEN_BITS
    end = [tokenizer.end_of_text]
    training = [tokens + end for tokens in
                encode_documents(tokenizer, read_documents(args.corpus, "train"))]
    model = KneserNey(training, args.order, tokenizer.size, tokenizer.end_of_text)
    documents, characters = held_out(tokenizer, args.corpus)
    print(f"largest deviation of a sum from 1: {check_sums(model, documents, args.check):.1e}")
    nats = sum(model.document_nats(document) for document in documents)
    report(f"{args.order}-gram", nats, sum(len(d) - 1 for d in documents), characters)


if __name__ == "__main__":
    main()
