"""What the runners for threads and for asyncio say alike; see the README of tests/conformance for what comes and goes."""

import json
import os
import threading

import sluice
from google.protobuf import json_format
from sluice.v1 import generation_pb2 as pb

_lock = threading.Lock()


def say(**fields):
    with _lock:
        print(json.dumps(fields), flush=True)


def settings():
    """The arguments of a Client, of either kind."""
    given = json.loads(os.environ["SLUICE_CLIENT"])
    tls = None
    if given.get("ca"):
        with open(given["ca"], "rb") as file:
            tls = sluice.Tls(authority=file.read())
    retry = sluice.RetryPolicy() if given.get("retry", True) else sluice.NO_RETRY
    return {"endpoints": given["endpoints"], "tls": tls, "token": given.get("token"), "retry": retry}


def timeout_of(case):
    return case.get("timeout_ms", 60000) / 1000


def fault(case, error):
    return {"id": case["id"], "error": {"code": error.code.name, "message": error.message}}


def position(entry):
    return {"logprob": entry.logprob, "top": [top.token_id for top in entry.top]}


class Collected:
    """What the chunks of a case's stream add up to."""

    def __init__(self, case):
        self.case, self.count = case, 0
        self.request = json_format.ParseDict(case["request"], pb.GenerateRequest())
        n = max(1, self.request.n)
        self.texts, self.ids, self.logprobs = [""] * n, [[] for _ in range(n)], [[] for _ in range(n)]

    def add(self, chunk):
        """True where the case wants the stream left."""
        self.texts[chunk.sequence] += chunk.text
        self.ids[chunk.sequence] += chunk.token_ids
        self.logprobs[chunk.sequence] += map(position, chunk.logprobs)
        self.count += 1
        if self.count == 3:
            say(id=self.case["id"], event="chunk")
        return self.count == self.case.get("cancel_after")

    def result(self, finished):
        ends = finished.sequences
        return {"texts": self.texts, "token_ids": self.ids, "logprobs": self.logprobs,
                "stop_strings": [end.stop_string for end in ends], "reasons": [pb.FinishReason.Name(end.reason) for end in ends],
                "prompt_tokens": finished.usage.num_prompt_tokens, "seed": str(finished.seed)}


# An operation's arguments, after its name, and what its answer is in the words of the suite.
OPERATIONS = {
    "score": (lambda request: {"prompt": request["text"], "top": request["top"],
                               "adapter": request.get("adapter", "")}, lambda score: {
        "token_ids": list(score.token_ids), "logprobs": [position(p) for p in score.logprobs], "mean_nll": score.mean_nll}),
    "tokenize": (lambda request: {"text": request["text"]}, lambda ids: {"token_ids": ids}),
    "detokenize": (lambda request: {"token_ids": request["tokenIds"]}, lambda text: {"text": text}),
    "embed": (lambda request: {"texts": [one["text"] for one in request["inputs"]]}, lambda numbers: {"embeddings": numbers}),
    "rerank": (lambda request: {"query": request["query"], "documents": request["documents"]},
               lambda scores: {"scores": scores}),
    "model": (lambda _: {}, lambda model: {
        "name": model.name, "vocabulary_size": model.vocabulary_size, "max_positions": model.max_positions}),
    "status": (lambda _: {}, lambda status: {"serving": status.serving}),
}
