// A call of the public API whose request is read when its handler says so, which is after its caller
// has been admitted. gRPC would read the request of a unary call before the handler hears of the call,
// so that whoever can connect could have it hold as many bytes as he likes; on the wire both are the
// same.
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
