"""What the server answers to a case, by generated code alone: what every library is to hand on."""

import sys

import grpc
from google.protobuf import json_format


class RawClient:
    def __init__(self, generated, endpoint):
        sys.path.insert(0, generated)
        from sluice.v1 import generation_pb2, generation_pb2_grpc, tokenizer_pb2

        self.pb, self.tokenizer_pb2 = generation_pb2, tokenizer_pb2
        self.stub = generation_pb2_grpc.GenerationServiceStub(grpc.insecure_channel(endpoint))

    def answer(self, case):
        return getattr(self, case.get("op", "generate"))(case["request"])

    @staticmethod
    def position(entry):
        return {"logprob": entry.logprob, "top": [top.token_id for top in entry.top]}

    def generate(self, fields):
        request = json_format.ParseDict(fields, self.pb.GenerateRequest())
        n = max(1, request.n)
        texts, ids, logprobs = [""] * n, [[] for _ in range(n)], [[] for _ in range(n)]
        for event in self.stub.Generate(request, timeout=60):
            chunk = event.chunk
            texts[chunk.sequence] += chunk.text
            ids[chunk.sequence] += chunk.token_ids
            logprobs[chunk.sequence] += map(self.position, chunk.logprobs)
        ends = event.finished.sequences
        result = {"texts": texts, "token_ids": ids, "logprobs": logprobs, "stop_strings": [end.stop_string for end in ends],
                  "reasons": [self.pb.FinishReason.Name(end.reason) for end in ends],
                  "prompt_tokens": event.finished.usage.num_prompt_tokens}
        if request.sampling.HasField("seed"):
            result["seed"] = str(request.sampling.seed)
        return result

    def score(self, fields):
        score = self.stub.Score(json_format.ParseDict(fields, self.pb.ScoreRequest()), timeout=60)
        return {"token_ids": list(score.token_ids), "logprobs": list(map(self.position, score.logprobs)),
                "mean_nll": score.mean_nll}

    def tokenize(self, fields):
        request = self.tokenizer_pb2.TokenizeRequest(text=fields["text"].encode())
        return {"token_ids": list(self.stub.Tokenize(request, timeout=60).token_ids)}

    def detokenize(self, fields):
        request = self.tokenizer_pb2.DetokenizeRequest(token_ids=fields["tokenIds"])
        return {"text": self.stub.Detokenize(request, timeout=60).text}

    def model(self, _):
        model = self.stub.GetModel(self.pb.GetModelRequest(), timeout=60)
        return {"name": model.name, "vocabulary_size": model.vocabulary_size, "max_positions": model.max_positions}

    def status(self, _):
        return {"serving": True}
