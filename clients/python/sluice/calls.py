"""What both clients, with threads and with asyncio, have in common: all but waiting."""

from __future__ import annotations

import time
from typing import Any, Callable, Generic, Optional, TypeVar

from sluice.connection import Endpoints, Stubs, Tls
from sluice.errors import Error
from sluice.request import Keywords, Prompt, make_request
from sluice.retry import Attempts, Resumption, RetryPolicy
from sluice.v1 import generation_pb2 as pb

S = TypeVar("S")


class Deadline:
    """When a call is over, however often it is made. Without seconds: never."""

    def __init__(self, seconds: Optional[float]):
        self._end = None if seconds is None else time.monotonic() + seconds

    def left(self) -> Optional[float]:
        return None if self._end is None else max(0.0, self._end - time.monotonic())

    def allows(self, pause: float, error: Error) -> float:
        """The pause; raises the error at once where the end comes first: it says more than that time is up."""
        if self._end is not None and time.monotonic() + pause >= self._end:
            raise error
        return pause


class StreamBase:
    """The state of a stream: the call that brings it now, and what the next one would have to ask for."""

    def __init__(self, stubs: Stubs, request: pb.GenerateRequest, policy: RetryPolicy, deadline: Deadline):
        self.finished: Optional[pb.Finished] = None
        self._stubs = stubs
        self._resumption = Resumption(request)
        self._attempts = Attempts(policy)
        self._deadline = deadline
        self._call: Optional[Any] = None
        self._endpoint = 0
        self._closed = False

    def close(self) -> None:
        self._closed = True
        if self._call is not None:
            self._call.cancel()

    def _ongoing(self) -> Any:
        """The call, begun where there is none."""
        if self._call is None:
            self._endpoint, stub = self._stubs.current()
            self._call = stub.Generate(self._resumption.request(), timeout=self._deadline.left(), metadata=self._stubs.metadata)
        return self._call

    def _take(self, event: pb.GenerateResponse) -> Optional[pb.Chunk]:
        """What there is to hand on; nothing at the end, and of the first event."""
        self._attempts.note_progress()
        kind = event.WhichOneof("event")
        if kind == "finished":
            self.finished = event.finished
        if kind != "chunk":
            return None
        self._resumption.note(event.chunk)
        return event.chunk

    def _lose(self, error: Error) -> float:
        """The call has failed: what to wait before the next one. Raises the error where there is to be none."""
        self._call = None
        self._stubs.check_open(error)
        pause = self._deadline.allows(self._attempts.pause_after(error), error)
        self._stubs.leave(self._endpoint)
        return pause


class ClientBase(Generic[S]):
    def __init__(self, stream: Callable[[Stubs, pb.GenerateRequest, RetryPolicy, Deadline], S], grpc_module: Any, endpoints: Endpoints,
                 tls: Optional[Tls], token: Optional[str], timeout: Optional[float], retry: RetryPolicy):
        self._stream = stream
        self._stubs = Stubs(endpoints, tls, token, grpc_module)
        self._timeout = timeout
        self._retry = retry

    def generate(self, prompt: Prompt, *, timeout: Optional[float] = None, **options: Keywords) -> S:
        """Streams what follows a text, token ids or a conversation. Options: see sluice.Options."""
        return self.send(make_request(prompt, options), timeout=timeout)

    def send(self, request: pb.GenerateRequest, *, timeout: Optional[float] = None) -> S:
        """The same for a request of your own; it is copied."""
        copy = pb.GenerateRequest()
        copy.CopyFrom(request)
        return self._stream(self._stubs, copy, self._retry, self._deadline(timeout))

    def _deadline(self, timeout: Optional[float]) -> Deadline:
        return Deadline(self._timeout if timeout is None else timeout)
