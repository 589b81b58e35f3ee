"""The client for asyncio: the same calls, awaited, and streams for `async for`."""

from __future__ import annotations

import asyncio
import time
from typing import Any, AsyncIterator, List, Mapping, Optional, Sequence, Union

import grpc
import grpc.aio

from sluice.connection import Endpoints, Stubs, Tls
from sluice.errors import Error
from sluice.request import Keywords, Prompt, make_request, make_score_request
from sluice.retry import Attempts, Resumption, RetryPolicy
from sluice.v1 import generation_pb2 as pb
from sluice.v1 import status_pb2, tokenizer_pb2


class Stream:
    """What a model writes, as an asynchronous iterator of pb.Chunk; see sluice.Stream.

    Cancelling the task that reads it, or leaving an `async with` block, ends the call: the server then stops.
    """

    def __init__(self, stubs: Stubs, request: pb.GenerateRequest, policy: RetryPolicy, deadline: Optional[float]):
        self.finished: Optional[pb.Finished] = None
        self._stubs = stubs
        self._resumption = Resumption(request)
        self._attempts = Attempts(policy)
        self._deadline = deadline
        self._call: Optional[Any] = None
        self._endpoint = 0
        self._closed = False

    def __aiter__(self) -> AsyncIterator[pb.Chunk]:
        return self

    async def __anext__(self) -> pb.Chunk:
        while self.finished is None and not self._closed:
            try:
                if self._call is None:
                    self._begin()
                event = await self._call.read()
                if event == grpc.aio.EOF:
                    raise Error(grpc.StatusCode.INTERNAL, "the stream ended before its last event")
            except grpc.RpcError as error:
                await self._recover(Error.from_call(error))
                continue
            except asyncio.CancelledError:
                self.close()
                raise
            self._attempts.note_progress()
            if event.WhichOneof("event") == "finished":
                self.finished = event.finished
                break
            self._resumption.note(event.chunk)
            return event.chunk
        raise StopAsyncIteration

    def _begin(self) -> None:
        self._endpoint, stub = self._stubs.current()
        self._call = stub.Generate(self._resumption.request(), timeout=_left(self._deadline), metadata=self._stubs.metadata)

    async def _recover(self, error: Error) -> None:
        self._call = None
        await _wait(self._attempts.pause_after(error), self._deadline, error)
        self._stubs.leave(self._endpoint)

    def close(self) -> None:
        self._closed = True
        if self._call is not None:
            self._call.cancel()

    async def __aenter__(self) -> "Stream":
        return self

    async def __aexit__(self, *_: Any) -> None:
        self.close()


class Client:
    """See sluice.Client. Belongs to the event loop that is running when it is made."""

    def __init__(self, endpoints: Endpoints = "127.0.0.1:8700", *, tls: Optional[Tls] = None, token: Optional[str] = None,
                 timeout: Optional[float] = None, retry: RetryPolicy = RetryPolicy()):
        self._stubs = Stubs(endpoints, tls, token, grpc.aio)
        self._timeout = timeout
        self._retry = retry

    async def close(self) -> None:
        for channel in self._stubs.channels:
            await channel.close()

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.close()

    def generate(self, prompt: Prompt, *, timeout: Optional[float] = None, **options: Keywords) -> Stream:
        """Streams what follows a text, token ids or a conversation. Options: see sluice.Options."""
        return self.send(make_request(prompt, options), timeout=timeout)

    def send(self, request: pb.GenerateRequest, *, timeout: Optional[float] = None) -> Stream:
        """The same for a request of your own; it is copied."""
        copy = pb.GenerateRequest()
        copy.CopyFrom(request)
        return Stream(self._stubs, copy, self._retry, self._deadline(timeout))

    async def text(self, prompt: Prompt, *, timeout: Optional[float] = None, **options: Keywords) -> str:
        """The whole text of one sequence."""
        async with self.generate(prompt, timeout=timeout, **options) as stream:
            return "".join([chunk.text async for chunk in stream if chunk.sequence == 0])

    async def chat(self, messages: Sequence[Mapping[str, str]], *, timeout: Optional[float] = None,
                   **options: Keywords) -> str:
        """What the assistant says next: the whole text. Stream it with generate()."""
        return await self.text(messages, timeout=timeout, **options)

    async def score(self, prompt: Union[str, Sequence[int]], *, top: int = 0, priority: int = 0,
                    timeout: Optional[float] = None) -> pb.ScoreResponse:
        """The log-probability of every token of a text."""
        return await self._unary("Score", make_score_request(prompt, top, priority), timeout)

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

    def _deadline(self, timeout: Optional[float]) -> Optional[float]:
        seconds = self._timeout if timeout is None else timeout
        return None if seconds is None else time.monotonic() + seconds

    async def _unary(self, method: str, request: Any, timeout: Optional[float]) -> Any:
        deadline = self._deadline(timeout)
        attempts = Attempts(self._retry)
        while True:
            endpoint, stub = self._stubs.current()
            try:
                return await getattr(stub, method)(request, timeout=_left(deadline), metadata=self._stubs.metadata)
            except grpc.RpcError as failure:
                error = Error.from_call(failure)
                await _wait(attempts.pause_after(error), deadline, error)
                self._stubs.leave(endpoint)


def _left(deadline: Optional[float]) -> Optional[float]:
    return None if deadline is None else max(0.0, deadline - time.monotonic())


async def _wait(pause: float, deadline: Optional[float], error: Error) -> None:
    if deadline is not None and time.monotonic() + pause >= deadline:
        raise error
    await asyncio.sleep(pause)
