"""The client for asyncio: the same calls, awaited, and streams for `async for`."""

from __future__ import annotations

import asyncio
from typing import Any, AsyncIterator, List, Mapping, Optional, Sequence, Union

import grpc
import grpc.aio

from sluice.calls import ClientBase, StreamBase
from sluice.connection import Endpoints, Tls
from sluice.errors import Error
from sluice.request import Keywords, Prompt, make_embed_request, make_score_request, make_scores_request
from sluice.retry import Attempts, RetryPolicy
from sluice.v1 import embed_pb2 as embed_pb
from sluice.v1 import generation_pb2 as pb
from sluice.v1 import status_pb2, tokenizer_pb2


class Stream(StreamBase):
    """What a model writes, as an asynchronous iterator of pb.Chunk; see sluice.Stream.

    Cancelling the task that reads it, or leaving an `async with` block, ends the call: the server then stops.
    """

    def __aiter__(self) -> AsyncIterator[pb.Chunk]:
        return self

    async def __anext__(self) -> pb.Chunk:
        while self.finished is None and not self._closed:
            try:
                event = await self._ongoing().read()
                if event == grpc.aio.EOF:
                    raise Error(grpc.StatusCode.INTERNAL, "the stream ended before its last event")
            except grpc.RpcError as error:
                await asyncio.sleep(self._lose(Error.from_call(error)))
                continue
            except asyncio.CancelledError:
                self.close()
                raise
            chunk = self._take(event)
            if chunk is not None:
                return chunk
        raise StopAsyncIteration

    async def __aenter__(self) -> "Stream":
        return self

    async def __aexit__(self, *_: Any) -> None:
        self.close()


class Client(ClientBase[Stream]):
    """See sluice.Client. Belongs to the event loop that is running when it is made."""

    def __init__(self, endpoints: Endpoints = "127.0.0.1:8700", *, tls: Optional[Tls] = None, token: Optional[str] = None,
                 timeout: Optional[float] = None, retry: RetryPolicy = RetryPolicy()):
        super().__init__(Stream, grpc.aio, endpoints, tls, token, timeout, retry)

    async def close(self) -> None:
        await asyncio.gather(*self._stubs.close())

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.close()

    async def text(self, prompt: Prompt, *, timeout: Optional[float] = None, **options: Keywords) -> str:
        """The whole text of one sequence."""
        async with self.generate(prompt, timeout=timeout, **options) as stream:
            return "".join([chunk.text async for chunk in stream if chunk.sequence == 0])

    async def chat(self, messages: Sequence[Mapping[str, str]], *, timeout: Optional[float] = None,
                   **options: Keywords) -> str:
        """What the assistant says next: the whole text. Stream it with generate()."""
        return await self.text(messages, timeout=timeout, **options)

    async def score(self, prompt: Union[str, Sequence[int]], *, top: int = 0, priority: int = 0,
                    adapter: str = "", timeout: Optional[float] = None) -> pb.ScoreResponse:
        """The log-probability of every token of a text."""
        return await self._unary("Score", make_score_request(prompt, top, priority, adapter), timeout)

    async def scores(self, prompts: Sequence[Union[str, Sequence[int]]], *, top: int = 0, priority: int = 0,
                     adapter: str = "", timeout: Optional[float] = None) -> List[pb.ScoredText]:
        """The same of up to 128 texts; what they begin with in common is computed once."""
        response = await self._unary("Score", make_scores_request(prompts, top, priority, adapter), timeout)
        return list(response.scores)

    async def embed(self, texts: Sequence[Union[str, Sequence[int]]], *, prompt_name: Optional[str] = None,
                    dimensions: Optional[int] = None, truncate_tokens: Optional[int] = None, priority: int = 0,
                    timeout: Optional[float] = None) -> List[List[float]]:
        """The embedding of each text, or a classifier's scores."""
        request = make_embed_request(texts, prompt_name, dimensions, truncate_tokens, priority)
        response = await self._unary("Embed", request, timeout)
        return [list(embedding.values) for embedding in response.embeddings]

    async def rerank(self, query: str, documents: Sequence[str], *, instruction: str = "",
                     truncate_tokens: Optional[int] = None, priority: int = 0,
                     timeout: Optional[float] = None) -> List[float]:
        """How well each document answers the query, larger is better."""
        request = embed_pb.RerankRequest(query=query, documents=documents, instruction=instruction,
                                         truncate_tokens=truncate_tokens, priority=priority)
        return list((await self._unary("Rerank", request, timeout)).scores)

    async def tokenize(self, text: str, *, add_special_tokens: bool = True, timeout: Optional[float] = None) -> List[int]:
        request = tokenizer_pb2.TokenizeRequest(text=text.encode(), add_special_tokens=add_special_tokens)
        return list((await self._unary("Tokenize", request, timeout)).token_ids)

    async def detokenize(self, token_ids: Sequence[int], *, timeout: Optional[float] = None) -> str:
        return (await self._unary("Detokenize", tokenizer_pb2.DetokenizeRequest(token_ids=token_ids), timeout)).text

    async def model(self, *, timeout: Optional[float] = None) -> pb.GetModelResponse:
        """What is served: name, size, context."""
        return await self._unary("GetModel", pb.GetModelRequest(), timeout)

    async def status(self, *, timeout: Optional[float] = None) -> Any:
        """What the server is doing, and what it lacks where it does not serve."""
        return await self._unary("GetStatus", status_pb2.GetStatusRequest(), timeout)

    async def _unary(self, method: str, request: Any, timeout: Optional[float]) -> Any:
        deadline = self._deadline(timeout)
        attempts = Attempts(self._retry)
        while True:
            endpoint, stub = self._stubs.current()
            try:
                return await getattr(stub, method)(request, timeout=deadline.left(), metadata=self._stubs.metadata)
            except grpc.RpcError as failure:
                error = Error.from_call(failure)
                self._stubs.check_open(error)
                await asyncio.sleep(deadline.allows(attempts.pause_after(error), error))
                self._stubs.leave(endpoint)
