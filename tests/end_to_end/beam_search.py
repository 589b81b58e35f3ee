"""Beam search in plain Python, written from the definition (docs/beams.md). `logprobs_after(tokens)` gives the
log-probability of every token, or of the most probable ones, after `tokens`, as {token: log-probability}."""

from dataclasses import dataclass


@dataclass
class Text:
    tokens: list
    logprobs: list
    score: float

    @property
    def total(self):
        total = 0.0
        for logprob in self.logprobs:
            total += logprob
        return total


def score(logprobs, length_penalty):
    total = 0.0
    for logprob in logprobs:
        total += logprob
    return total / len(logprobs) ** length_penalty


def beam_search(logprobs_after, width, max_tokens, stop_tokens=(), length_penalty=1.0, early_stopping=False):
    """The `width` best texts, best first. `early_stopping` is False, True or "never"."""
    live, finished = [([], [], 0.0)], []

    def finish(tokens, logprobs):
        finished.append(Text(tokens, logprobs, score(logprobs, length_penalty)))
        finished.sort(key=lambda text: -text.score)  # stable: of equals, what was found first
        del finished[width:]

    for step in range(1, max_tokens + 1):
        expansions = []
        for beam, (tokens, logprobs, total) in enumerate(live):
            for token, logprob in logprobs_after(tokens).items():
                expansions.append((-(total + logprob), token, beam, logprob))
        expansions.sort()
        survivors = []
        for rank, (negated, token, beam, logprob) in enumerate(expansions):
            if len(survivors) == width:
                break
            tokens, logprobs = live[beam][0] + [token], live[beam][1] + [logprob]
            if token not in stop_tokens:
                survivors.append((tokens, logprobs, -negated))
            elif rank < width:
                finish(tokens, logprobs)
        live = survivors
        if step == max_tokens:
            for tokens, logprobs, _ in live:
                finish(tokens, logprobs)
        if not live or step == max_tokens:
            break
        if len(finished) == width:
            worst, best = finished[-1].score, live[0][2]
            length = max_tokens if early_stopping == "never" and length_penalty > 0 else step
            if early_stopping is True or worst >= best / length ** length_penalty:
                break
    return finished
