// Messages as gRPC's byte buffers, for methods that parse their requests themselves. gRPC answers a
// request that does not parse with UNIMPLEMENTED and no message; a public method owes its callers a
// better word. Thread-safe.
#pragma once

#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/support/byte_buffer.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace sluice {

// INVALID_ARGUMENT where the bytes are no Message, or a string in it is not UTF-8.
template <class Message>
absl::StatusOr<Message> ParseMessage(const grpc::ByteBuffer& bytes) {
  grpc::ByteBuffer copy(bytes);  // shares the bytes; parsing consumes the buffer
  Message message;
  if (!grpc::SerializationTraits<Message>::Deserialize(&copy, &message).ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the request is no ", Message::descriptor()->full_name(),
                     ": its bytes are malformed, or a text in it is not valid UTF-8"));
  }
  return message;
}

template <class Message>
grpc::ByteBuffer SerializeMessage(const Message& message) {
  grpc::ByteBuffer bytes;
  bool own_buffer = false;
  grpc::SerializationTraits<Message>::Serialize(message, &bytes, &own_buffer);
  return bytes;
}

}  // namespace sluice
