"""When a call is made again, and with what. No I/O: both clients, with threads and with asyncio, ask the same."""

from __future__ import annotations

import dataclasses
import random
import time
from typing import Callable, Optional

import grpc

from sluice.errors import Error
from sluice.request import seed_of, tokens_by_sequence
from sluice.v1 import generation_pb2 as pb

# A server that shuts down cancels the calls that reach it; those that the caller ends don't come here.
_AGAIN = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.CANCELLED)


@dataclasses.dataclass(frozen=True)
class RetryPolicy:
    """How long a call tries again after UNAVAILABLE, RESOURCE_EXHAUSTED and a CANCELLED that it did not ask for; other
    statuses are final, and so is one with a reason.

    The pause is what the server says, else it doubles from first_pause to longest_pause, with a random part so that
    clients do not come back together. All in seconds.
    """

    connect_for: float = 5.0  # a call that has had no answer yet, while no server can be reached
    resume_for: float = 60.0  # a stream that has begun; a call that a busy server puts off
    first_pause: float = 0.05
    longest_pause: float = 2.0


NO_RETRY = RetryPolicy(connect_for=0, resume_for=0)


class Attempts:
    """The attempts of one call."""

    def __init__(self, policy: RetryPolicy, clock: Callable[[], float] = time.monotonic):
        self._policy = policy
        self._clock = clock
        self._failing_since: Optional[float] = None
        self._pause = policy.first_pause
        self._has_begun = False

    def note_progress(self) -> None:
        self._has_begun = True
        self._failing_since = None
        self._pause = self._policy.first_pause

    def pause_after(self, error: Error) -> float:
        """Seconds to wait before the next attempt; raises the error where there is to be none."""
        now = self._clock()
        if self._failing_since is None:
            self._failing_since = now
        patient = self._has_begun or error.code == grpc.StatusCode.RESOURCE_EXHAUSTED
        limit = self._policy.resume_for if patient else self._policy.connect_for
        pause = error.retry_after
        if pause is None:
            pause = self._pause * random.uniform(0.5, 1.0)
            self._pause = min(2 * self._pause, self._policy.longest_pause)
        if error.code not in _AGAIN or error.reason is not None or now + pause - self._failing_since > limit:
            raise error
        return pause


class Resumption:
    """The request of a stream, which grows by the tokens that came, so that another attempt goes on after them."""

    def __init__(self, request: pb.GenerateRequest):
        self._request = request
        if seed_of(request) is None:
            request.sampling.seed = random.getrandbits(64)  # the server's own would differ from attempt to attempt
        self._tokens = list(request.resume) or tokens_by_sequence(request)
        self._has_tokens = bool(request.resume)

    def note(self, chunk: pb.Chunk) -> None:
        self._has_tokens = True
        while len(self._tokens) <= chunk.sequence:  # of a search, which returns as many as it says
            self._tokens.append(pb.ResumedSequence())
        self._tokens[chunk.sequence].token_ids.extend(chunk.token_ids)

    def request(self) -> pb.GenerateRequest:
        if self._has_tokens:
            del self._request.resume[:]
            self._request.resume.extend(self._tokens)
        return self._request
