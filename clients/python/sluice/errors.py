"""What a call ends with where it fails."""

from __future__ import annotations

from typing import Optional

import grpc
from google.protobuf.any_pb2 import Any
from google.protobuf.duration_pb2 import Duration
from google.protobuf.empty_pb2 import Empty

_DETAILS = "grpc-status-details-bin"


class Error(Exception):
    """A call that failed, with gRPC's status.

    code: grpc.StatusCode, such as INVALID_ARGUMENT; message: the server's words, which name field, value and what is
    accepted; retry_after: seconds after which the server asks to come again, where it says so.
    """

    def __init__(self, code: grpc.StatusCode, message: str, retry_after: Optional[float] = None):
        super().__init__(f"{code.name}: {message}")
        self.code = code
        self.message = message
        self.retry_after = retry_after

    @staticmethod
    def from_call(error: grpc.RpcError) -> "Error":
        """From what a call of gRPC raised."""
        # In pairs from both of gRPC's clients, though that of asyncio calls it a mapping.
        metadata = {key: value for key, value in error.trailing_metadata() or ()}
        return Error(error.code(), error.details() or "", _retry_delay(metadata.get(_DETAILS, b"")))


def _fields(message: bytes, number: int) -> list:
    """The values of a field of any message, as bytes or numbers."""
    return [field.data for field in Empty.FromString(message).UnknownFields() if field.field_number == number]


def _retry_delay(details: bytes) -> Optional[float]:
    """From a google.rpc.Status (details: repeated Any = 3) the RetryInfo (retry_delay: Duration = 1), in seconds."""
    for data in _fields(details, 3) if details else ():
        detail = Any.FromString(data)
        if not detail.type_url.endswith("/google.rpc.RetryInfo"):
            continue
        for delay in _fields(detail.value, 1):
            duration = Duration.FromString(delay)
            return duration.seconds + duration.nanos / 1e9
    return None
