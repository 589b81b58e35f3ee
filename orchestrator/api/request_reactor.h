// A call of the public API that reads its request only when its handler asks for it, after the caller
// has been authenticated. For a unary method gRPC reads the request before it calls the handler, so
// that a client without a token could make the server hold a large message. Both are the same on the
// wire.
#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace sluice {

// Belongs to gRPC, as every reactor.
class RequestReactor : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  using OnRequest = std::function<void(absl::StatusOr<grpc::ByteBuffer> request)>;

  // Calls `on_request` once with the request, or with INVALID_ARGUMENT where the client sends none or
  // leaves. To be called at most once.
  void ReadRequest(OnRequest on_request) {
    on_request_ = std::move(on_request);
    StartRead(&request_);
  }

 private:
  void OnReadDone(bool ok) final {
    const OnRequest on_request = std::exchange(on_request_, nullptr);
    if (!ok) return on_request(absl::InvalidArgumentError("the call has no request"));
    on_request(std::move(request_));
  }

  OnRequest on_request_;
  grpc::ByteBuffer request_;
};

}  // namespace sluice
