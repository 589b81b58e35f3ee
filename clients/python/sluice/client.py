"""The client for programs with threads."""

from __future__ import annotations

import time
from typing import Any, Callable, Iterator, List, Mapping, Optional, Sequence, Union

import grpc

from sluice.connection import Endpoints, Stubs, Tls
from sluice.errors import Error
from sluice.request import Keywords, Prompt, make_request, make_score_request
from sluice.retry import Attempts, Resumption, RetryPolicy
from sluice.v1 import generation_pb2 as pb
from sluice.v1 import status_pb2, tokenizer_pb2


class Stream:
    """What a model writes, as an iterator of pb.Chunk. Going on where a connection was lost is its own business.

    After its end `finished` says how each sequence ended and what was used. Ends early by close(), or by leaving a
    `with` block: the server then stops.
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

    def __iter__(self) -> Iterator[pb.Chunk]:
        return self

    def __next__(self) -> pb.Chunk:
        while self.finished is None and not self._closed:
            try:
                if self._call is None:
                    self._begin()
                event = next(self._call)
            except StopIteration:
                raise Error(grpc.StatusCode.INTERNAL, "the stream ended before its last event") from None
            except grpc.RpcError as error:
                if self._closed:
                    break
                self._recover(Error.from_call(error))
                continue
            self._attempts.note_progress()
            if event.WhichOneof("event") == "finished":
                self.finished = event.finished
                break
            self._resumption.note(event.chunk)
            return event.chunk
        raise StopIteration

    def _begin(self) -> None:
        self._endpoint, stub = self._stubs.current()
        self._call = stub.Generate(self._resumption.request(), timeout=_left(self._deadline), metadata=self._stubs.metadata)

    def _recover(self, error: Error) -> None:
        self._call = None
        _wait(self._attempts.pause_after(error), self._deadline, error)
        self._stubs.leave(self._endpoint)

    def close(self) -> None:
        self._closed = True
        if self._call is not None:
            self._call.cancel()

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


class Client:
    """Calls a server, or several that serve the same model. Safe to share among threads.

    endpoints: "HOST:PORT", several by comma or as a list; the next is taken where one is lost.
    token: the bearer token that says who calls. timeout: seconds that a call may take unless it says otherwise.
    Calls raise Error.
    """

    def __init__(self, endpoints: Endpoints = "127.0.0.1:8700", *, tls: Optional[Tls] = None, token: Optional[str] = None,
                 timeout: Optional[float] = None, retry: RetryPolicy = RetryPolicy()):
        self._stubs = Stubs(endpoints, tls, token, grpc)
        self._timeout = timeout
        self._retry = retry

    def close(self) -> None:
        for channel in self._stubs.channels:
            channel.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def generate(self, prompt: Prompt, *, timeout: Optional[float] = None, **options: Keywords) -> Stream:
        """Streams what follows a text, token ids or a conversation. Options: see sluice.Options."""
        return self.send(make_request(prompt, options), timeout=timeout)

    def send(self, request: pb.GenerateRequest, *, timeout: Optional[float] = None) -> Stream:
        """The same for a request of your own; it is copied."""
        copy = pb.GenerateRequest()
        copy.CopyFrom(request)
        return Stream(self._stubs, copy, self._retry, self._deadline(timeout))

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
              timeout: Optional[float] = None) -> pb.ScoreResponse:
        """The log-probability of every token of a text."""
        return self._unary("Score", make_score_request(prompt, top, priority), timeout)

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

    def _deadline(self, timeout: Optional[float]) -> Optional[float]:
        seconds = self._timeout if timeout is None else timeout
        return None if seconds is None else time.monotonic() + seconds

    def _unary(self, method: str, request: Any, timeout: Optional[float]) -> Any:
        deadline = self._deadline(timeout)
        attempts = Attempts(self._retry)
        while True:
            endpoint, stub = self._stubs.current()
            call: Callable[..., Any] = getattr(stub, method)
            try:
                return call(request, timeout=_left(deadline), metadata=self._stubs.metadata)
            except grpc.RpcError as failure:
                error = Error.from_call(failure)
                _wait(attempts.pause_after(error), deadline, error)
                self._stubs.leave(endpoint)


def _left(deadline: Optional[float]) -> Optional[float]:
    return None if deadline is None else max(0.0, deadline - time.monotonic())


def _wait(pause: float, deadline: Optional[float], error: Error) -> None:
    """Raises the error at once where the deadline comes first: it says more than that time is up."""
    if deadline is not None and time.monotonic() + pause >= deadline:
        raise error
    time.sleep(pause)
