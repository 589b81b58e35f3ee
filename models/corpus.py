"""The story corpus: reading documents and turning them into tokens.

A corpus file holds one paragraph per line; a line holding only <|endoftext|> ends a document.
The text of a document is its paragraphs, each followed by one newline.  As tokens a document is
<|endoftext|> followed by the tokens of its text, so that the next document's first token also
tells where this one ends.
"""
import pathlib
import subprocess

END_OF_TEXT = "<|endoftext|>"
MODELS_DIR = pathlib.Path(__file__).resolve().parent
DEFAULT_CORPUS = MODELS_DIR.parent.parent / "shared" / "corpus"
DEFAULT_MODEL = MODELS_DIR / "storyteller"


def add_corpus_flag(parser):
    parser.add_argument("--corpus", type=pathlib.Path, default=DEFAULT_CORPUS, metavar="FOLDER",
                        help="folder with stories.train.txt.zst and stories.valid.txt "
                             "(default: ../shared/corpus beside the checkout)")


def read_documents(corpus, split):
    """Document texts of a split, "train" or "valid", in file order."""
    if split == "train":
        command = ["zstd", "-dc", str(corpus / "stories.train.txt.zst")]
        text = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout.decode("utf-8")
    else:
        text = (corpus / f"stories.{split}.txt").read_text(encoding="utf-8")
    separator = END_OF_TEXT + "\n"
    return [document for document in text.split(separator) if document]


def encode_documents(tokenizer, documents):
    """One list of token ids a document: <|endoftext|>, then its text."""
    return [[tokenizer.end_of_text] + tokenizer.encode(document) for document in documents]
