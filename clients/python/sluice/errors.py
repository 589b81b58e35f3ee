"""What a call ends with where it fails."""

from __future__ import annotations

from typing import Iterator, Optional

import grpc
from google.protobuf.any_pb2 import Any
from google.protobuf.duration_pb2 import Duration
from google.protobuf.empty_pb2 import Empty

_DETAILS = "grpc-status-details-bin"


class Error(Exception):
    """A call that failed, with gRPC's status.

    code: grpc.StatusCode, such as INVALID_ARGUMENT; message: the server's words, which name field, value and what is
    accepted; retry_after: seconds after which the server asks to come again, where it says so; reason: why the server
    would refuse the same request again, such as REQUEST_WORK_EXCEEDED, where it says so.
    """

    def __init__(self, code: grpc.StatusCode, message: str, retry_after: Optional[float] = None, reason: Optional[str] = None):
        super().__init__(f"{code.name}: {message}")
        self.code = code
        self.message = message
        self.retry_after = retry_after
        self.reason = reason

    @staticmethod
    def from_call(error: grpc.RpcError) -> "Error":
        """From what a call of gRPC raised."""
        # In pairs from both of gRPC's clients, though that of asyncio calls it a mapping.
        metadata = {key: value for key, value in error.trailing_metadata() or ()}
        details = metadata.get(_DETAILS, b"")
        return Error(error.code(), error.details() or "", _retry_delay(details), _reason(details))


def _fields(message: bytes, number: int) -> list:
    """The values of a field of any message, as bytes or numbers."""
    return [field.data for field in Empty.FromString(message).UnknownFields() if field.field_number == number]


def _details(details: bytes, kind: str) -> Iterator[bytes]:
    """From a google.rpc.Status (details: repeated Any = 3) the messages of one type."""
    for data in _fields(details, 3) if details else ():
        detail = Any.FromString(data)
        if detail.type_url.endswith(f"/google.rpc.{kind}"):
            yield detail.value


def _retry_delay(details: bytes) -> Optional[float]:
    """Of the RetryInfo (retry_delay: Duration = 1), in seconds."""
    for retry_info in _details(details, "RetryInfo"):
        for delay in _fields(retry_info, 1):
            duration = Duration.FromString(delay)
            return duration.seconds + duration.nanos / 1e9
    return None


def _reason(details: bytes) -> Optional[str]:
    """Of the ErrorInfo (reason: string = 1)."""
    for error_info in _details(details, "ErrorInfo"):
        for reason in _fields(error_info, 1):
            return reason.decode(errors="replace")
    return None
