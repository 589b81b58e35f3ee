"""The client for programs with threads."""

from __future__ import annotations

import time
from typing import Any, Callable, Iterator, List, Mapping, Optional, Sequence, Union

import grpc

from sluice.calls import ClientBase, StreamBase
from sluice.connection import Endpoints, Tls
from sluice.errors import Error
from sluice.request import Keywords, Prompt, make_embed_request, make_score_request, make_scores_request
from sluice.retry import Attempts, RetryPolicy
from sluice.v1 import embed_pb2 as embed_pb
from sluice.v1 import generation_pb2 as pb
from sluice.v1 import status_pb2, tokenizer_pb2


class Stream(StreamBase):
    """What a model writes, as an iterator of pb.Chunk. Going on where a connection was lost is its own business.

    After its end `finished` says how each sequence ended and what was used. Ends early by close(), or by leaving a
    `with` block: the server then stops.
    """

    def __iter__(self) -> Iterator[pb.Chunk]:
        return self

    def __next__(self) -> pb.Chunk:
        while self.finished is None and not self._closed:
            try:
                chunk = self._take(next(self._ongoing()))
            except StopIteration:
                raise Error(grpc.StatusCode.INTERNAL, "the stream ended before its last event") from None
            except grpc.RpcError as error:
                if self._closed:
                    break
                time.sleep(self._lose(Error.from_call(error)))
                continue
            if chunk is not None:
                return chunk
        raise StopIteration

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


class Client(ClientBase[Stream]):
    """Calls a server, or several that serve the same model. Safe to share among threads.

    endpoints: "HOST:PORT", several by comma or as a list; the next is taken where one is lost.
    token: the bearer token that says who calls. timeout: seconds that a call may take unless it says otherwise.
    Calls raise Error.
    """

    def __init__(self, endpoints: Endpoints = "127.0.0.1:8700", *, tls: Optional[Tls] = None, token: Optional[str] = None,
                 timeout: Optional[float] = None, retry: RetryPolicy = RetryPolicy()):
        super().__init__(Stream, grpc, endpoints, tls, token, timeout, retry)

    def close(self) -> None:
        self._stubs.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def text(self, prompt: Prompt, *, timeout: Optional[float] = None, **options: Keywords) -> str:
        """The whole text of one sequence."""
        with self.generate(prompt, timeout=timeout, **options) as stream:
            return "".join(chunk.text for chunk in stream if chunk.sequence == 0)

    def texts(self, prompt: Prompt, *, timeout: Optional[float] = None, **options: Keywords) -> List[str]:
        """The whole texts of all n sequences."""
        texts = [""] * max(1, int(options.get("n") or 1))
        with self.generate(prompt, timeout=timeout, **options) as stream:
            for chunk in stream:
                while len(texts) <= chunk.sequence:  # a search returns as many as it says
                    texts.append("")
                texts[chunk.sequence] += chunk.text
        return texts

    def chat(self, messages: Sequence[Mapping[str, str]], *, timeout: Optional[float] = None, **options: Keywords) -> str:
        """What the assistant says next: the whole text. Stream it with generate()."""
        return self.text(messages, timeout=timeout, **options)

    def score(self, prompt: Union[str, Sequence[int]], *, top: int = 0, priority: int = 0,
              adapter: str = "", timeout: Optional[float] = None) -> pb.ScoreResponse:
        """The log-probability of every token of a text."""
        return self._unary("Score", make_score_request(prompt, top, priority, adapter), timeout)

    def scores(self, prompts: Sequence[Union[str, Sequence[int]]], *, top: int = 0, priority: int = 0,
               adapter: str = "", timeout: Optional[float] = None) -> List[pb.ScoredText]:
        """The same of up to 128 texts; what they begin with in common is computed once."""
        response = self._unary("Score", make_scores_request(prompts, top, priority, adapter), timeout)
        return list(response.scores)

    def embed(self, texts: Sequence[Union[str, Sequence[int]]], *, prompt_name: Optional[str] = None,
              dimensions: Optional[int] = None, truncate_tokens: Optional[int] = None, priority: int = 0,
              timeout: Optional[float] = None) -> List[List[float]]:
        """The embedding of each text, or a classifier's scores."""
        request = make_embed_request(texts, prompt_name, dimensions, truncate_tokens, priority)
        response = self._unary("Embed", request, timeout)
        return [list(embedding.values) for embedding in response.embeddings]

    def rerank(self, query: str, documents: Sequence[str], *, instruction: str = "",
               truncate_tokens: Optional[int] = None, priority: int = 0,
               timeout: Optional[float] = None) -> List[float]:
        """How well each document answers the query, larger is better."""
        request = embed_pb.RerankRequest(query=query, documents=documents, instruction=instruction,
                                         truncate_tokens=truncate_tokens, priority=priority)
        return list((self._unary("Rerank", request, timeout)).scores)

    def tokenize(self, text: str, *, add_special_tokens: bool = True, timeout: Optional[float] = None) -> List[int]:
        request = tokenizer_pb2.TokenizeRequest(text=text.encode(), add_special_tokens=add_special_tokens)
        return list(self._unary("Tokenize", request, timeout).token_ids)

    def detokenize(self, token_ids: Sequence[int], *, timeout: Optional[float] = None) -> str:
        return self._unary("Detokenize", tokenizer_pb2.DetokenizeRequest(token_ids=token_ids), timeout).text

    def model(self, *, timeout: Optional[float] = None) -> pb.GetModelResponse:
        """What is served: name, size, context."""
        return self._unary("GetModel", pb.GetModelRequest(), timeout)

    def status(self, *, timeout: Optional[float] = None) -> Any:
        """What the server is doing, and what it lacks where it does not serve."""
        return self._unary("GetStatus", status_pb2.GetStatusRequest(), timeout)

    def _unary(self, method: str, request: Any, timeout: Optional[float]) -> Any:
        deadline = self._deadline(timeout)
        attempts = Attempts(self._retry)
        while True:
            endpoint, stub = self._stubs.current()
            call: Callable[..., Any] = getattr(stub, method)
            try:
                return call(request, timeout=deadline.left(), metadata=self._stubs.metadata)
            except grpc.RpcError as failure:
                error = Error.from_call(failure)
                self._stubs.check_open(error)
                time.sleep(deadline.allows(attempts.pause_after(error), error))
                self._stubs.leave(endpoint)
