"""Byte-level BPE in plain Python: pre-tokens, byte symbols, encoding and decoding.

Text is cut into pre-tokens by SPLIT_REGEX; each byte of a pre-token's UTF-8 form becomes one
printable symbol; then adjacent symbols are merged, always the pair that was learned earliest,
until no learned pair is left.  Merges never cross pre-tokens.
"""
import json

import regex

# The split of Llama 3: contractions, words with one leading non-letter, up to three digits,
# punctuation with the line breaks after it, line breaks, other spaces.
SPLIT_REGEX = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
               r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
SPLITTER = regex.compile(SPLIT_REGEX)


def byte_symbols():
    """256 characters, indexed by byte: printable Latin-1 stands for itself, and the other bytes,
    in order, are U+0100, U+0101, ... (the alphabet of every byte-level BPE tokenizer.json)."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = (byte for byte in range(256) if byte not in printable)
    moved = {byte: chr(0x100 + index) for index, byte in enumerate(others)}
    return [moved.get(byte, chr(byte)) for byte in range(256)]


BYTE_SYMBOLS = byte_symbols()
SYMBOL_BYTES = {symbol: byte for byte, symbol in enumerate(BYTE_SYMBOLS)}


def pretokens(text):
    """The pre-tokens of `text` as strings of byte symbols, in order."""
    for match in SPLITTER.finditer(text):
        yield "".join(BYTE_SYMBOLS[byte] for byte in match.group().encode("utf-8"))


class Tokenizer:
    """Reads a tokenizer.json written by train_tokenizer.py.

    Special tokens are not looked for in the text: "<|endoftext|>" typed by a user is encoded as
    ordinary characters.
    """

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            data = json.load(file)
        self.ids = data["model"]["vocab"]
        merges = [tuple(merge.split(" ")) for merge in data["model"]["merges"]]
        self.ranks = {pair: rank for rank, pair in enumerate(merges)}
        specials = {token["id"]: token["content"] for token in data["added_tokens"]}
        (self.end_of_text,) = specials
        self.symbols = {token: symbol for symbol, token in self.ids.items()}
        self.specials = specials
        self.size = len(self.symbols.keys() | specials.keys())
        self.cache = {}

    def encode(self, text):
        """Token ids of `text`, without <|endoftext|>."""
        tokens = []
        for word in pretokens(text):
            if word not in self.cache:
                self.cache[word] = [self.ids[symbol] for symbol in self.merge(list(word))]
            tokens.extend(self.cache[word])
        return tokens

    def merge(self, symbols):
        """Applies every learned merge to one pre-token, earliest learned first."""
        while len(symbols) > 1:
            pairs = zip(symbols, symbols[1:])
            ranks = [self.ranks.get(pair, len(self.ranks)) for pair in pairs]
            at = ranks.index(min(ranks))
            if ranks[at] == len(self.ranks):
                break
            symbols[at:at + 2] = [symbols[at] + symbols[at + 1]]
        return symbols

    def decode(self, tokens):
        """Text of `tokens`; special tokens are left out, bytes that are no UTF-8 become U+FFFD."""
        text = "".join(self.symbols[token] for token in tokens if token not in self.specials)
        return bytes(SYMBOL_BYTES[symbol] for symbol in text).decode("utf-8", errors="replace")
