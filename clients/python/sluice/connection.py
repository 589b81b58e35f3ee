"""Where a client's calls go, and as whom."""

from __future__ import annotations

import dataclasses
from typing import Any, List, Optional, Sequence, Tuple, Union

import grpc

from sluice.v1 import embed_pb2_grpc as embed_rpc
from sluice.v1 import generation_pb2_grpc as rpc


@dataclasses.dataclass(frozen=True)
class Tls:
    """PEM texts. Without an authority that of the system is taken; certificate and key where servers ask for one."""

    authority: Optional[bytes] = None
    certificate: Optional[bytes] = None
    key: Optional[bytes] = None

    def credentials(self) -> grpc.ChannelCredentials:
        return grpc.ssl_channel_credentials(self.authority, self.key, self.certificate)


# A score of a long text is longer than the 4 MB that gRPC takes unless told otherwise. A lost server is looked for again
# soon: gRPC's own pauses grow to two minutes.
_CHANNEL_OPTIONS = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
]

Endpoints = Union[str, Sequence[str]]


class Stub(rpc.GenerationServiceStub, embed_rpc.EmbedServiceStub):
    """The calls of both services over one channel."""

    def __init__(self, channel: Any):
        rpc.GenerationServiceStub.__init__(self, channel)
        embed_rpc.EmbedServiceStub.__init__(self, channel)


class Stubs:
    """A stub for each endpoint; next() goes on to the one after."""

    def __init__(self, endpoints: Endpoints, tls: Optional[Tls], token: Optional[str], grpc_module: Any):
        addresses = endpoints.split(",") if isinstance(endpoints, str) else list(endpoints)
        if not addresses:
            raise ValueError("no endpoint is given")
        self.metadata: Tuple[Tuple[str, str], ...] = (("authorization", f"Bearer {token}"),) if token else ()
        self.channels: List[Any] = [self._channel(address, tls, grpc_module) for address in addresses]
        self._stubs = [Stub(channel) for channel in self.channels]
        self._at = 0
        self.closed = False

    @staticmethod
    def _channel(address: str, tls: Optional[Tls], grpc_module: Any) -> Any:
        if tls is None:
            return grpc_module.insecure_channel(address, options=_CHANNEL_OPTIONS)
        return grpc_module.secure_channel(address, tls.credentials(), options=_CHANNEL_OPTIONS)

    def current(self) -> Tuple[int, Stub]:
        return self._at, self._stubs[self._at]

    def close(self) -> List[Any]:
        """What closing all channels gives, which asyncio's have to be awaited for."""
        self.closed = True
        return [channel.close() for channel in self.channels]

    def check_open(self, error: Exception) -> None:
        """Raises the error of a call that ended as the client was closed: it is not to be made again."""
        if self.closed:
            raise error

    def leave(self, index: int) -> None:
        """Goes on to the next endpoint, unless another call has done so."""
        if index == self._at:
            self._at = (index + 1) % len(self._stubs)
