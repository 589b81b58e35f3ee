"""Runs conformance cases with clients/python; see the README of tests/conformance for what comes and goes."""

import json
import os
import sys
import threading

import sluice
from google.protobuf import json_format
from sluice.v1 import generation_pb2 as pb

lock = threading.Lock()


def say(**fields):
    with lock:
        print(json.dumps(fields), flush=True)


def position(entry):
    return {"logprob": entry.logprob, "top": [top.token_id for top in entry.top]}


def generate(client, case, timeout):
    request = json_format.ParseDict(case["request"], pb.GenerateRequest())
    n = max(1, request.n)
    texts, ids, logprobs = [""] * n, [[] for _ in range(n)], [[] for _ in range(n)]
    count = 0
    with client.send(request, timeout=timeout) as stream:
        for chunk in stream:
            texts[chunk.sequence] += chunk.text
            ids[chunk.sequence] += chunk.token_ids
            logprobs[chunk.sequence] += map(position, chunk.logprobs)
            count += 1
            if count == 3:
                say(id=case["id"], event="chunk")
            if count == case.get("cancel_after"):
                return {"cancelled": True}
    ends = stream.finished.sequences
    return {"texts": texts, "token_ids": ids, "logprobs": logprobs, "stop_strings": [end.stop_string for end in ends],
            "reasons": [pb.FinishReason.Name(end.reason) for end in ends],
            "prompt_tokens": stream.finished.usage.num_prompt_tokens, "seed": str(stream.finished.seed)}


def answer(client, case):
    timeout = case.get("timeout_ms", 60000) / 1000
    request, op = case["request"], case.get("op", "generate")
    if op == "generate":
        return generate(client, case, timeout)
    if op == "score":
        score = client.score(request["text"], top=request["top"], timeout=timeout)
        return {"token_ids": list(score.token_ids), "logprobs": [position(p) for p in score.logprobs], "mean_nll": score.mean_nll}
    if op == "tokenize":
        return {"token_ids": client.tokenize(request["text"], timeout=timeout)}
    if op == "detokenize":
        return {"text": client.detokenize(request["tokenIds"], timeout=timeout)}
    if op == "model":
        model = client.model(timeout=timeout)
        return {"name": model.name, "vocabulary_size": model.vocabulary_size, "max_positions": model.max_positions}
    return {"serving": client.status(timeout=timeout).serving}


def run(client, case):
    try:
        say(id=case["id"], result=answer(client, case))
    except sluice.Error as error:
        say(id=case["id"], error={"code": error.code.name, "message": error.message})


def main():
    settings = json.loads(os.environ["SLUICE_CLIENT"])
    tls = None
    if settings.get("ca"):
        with open(settings["ca"], "rb") as file:
            tls = sluice.Tls(authority=file.read())
    retry = sluice.RetryPolicy() if settings.get("retry", True) else sluice.NO_RETRY
    client = sluice.Client(settings["endpoints"], tls=tls, token=settings.get("token"), retry=retry)
    threads = []
    for line in sys.stdin:
        threads.append(threading.Thread(target=run, args=(client, json.loads(line))))
        threads[-1].start()
    for thread in threads:
        thread.join()


main()
