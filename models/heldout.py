"""What held-out measurements share: the documents, a model's score, how a result is reported."""
import math

import torch

from corpus import encode_documents, read_documents


def held_out(tokenizer, corpus):
    """(documents, characters): every document is <|endoftext|>, its text, <|endoftext|>, and all
    but the first token are to be predicted; characters counts the texts', newlines included."""
    texts = read_documents(corpus, "valid")
    documents = [tokens + [tokenizer.end_of_text] for tokens in encode_documents(tokenizer, texts)]
    return documents, sum(map(len, texts))


@torch.no_grad()
def document_nats(model, document, length, stride):
    """Negative log-likelihood in nats of all tokens of `document` but the first.

    The document is cut into windows of at most `length` inputs, one every `stride` <= length
    tokens; each scores those of its targets that the windows before it have not scored.
    """
    document = torch.tensor(document)
    scored, total = 1, 0.0    # document[:scored] needs no score any more
    for start in range(0, len(document), stride):
        window = document[start:start + length + 1]
        if start + len(window) <= scored:
            break
        log_probs = torch.log_softmax(model.logits(window[:-1]), dim=-1)
        nats = -log_probs.gather(1, window[1:, None])[:, 0]
        total += nats[scored - start - 1:].double().sum().item()
        scored = start + len(window)
    return total


def report(name, nats, tokens, characters):
    """One line: perplexity = exp(nats / units); bits = log2 of it."""
    per_token, per_character = nats / tokens, nats / characters
    print(f"{name}: tokens={tokens} characters={characters} "
          f"nats_per_token={per_token:.4f} perplexity_per_token={math.exp(per_token):.2f} "
          f"perplexity_per_character={math.exp(per_character):.4f} "
          f"bits_per_character={per_character / math.log(2):.4f}")
