// Messages as gRPC's byte buffers, for methods that parse their requests themselves. gRPC answers a
// request that does not parse with UNIMPLEMENTED and no message; a public method owes its callers a
// better word. And two bytes on the wire may take a hundred in memory once they are parsed, so what
// a message holds is counted before. Thread-safe.
#pragma once

#include <google/protobuf/descriptor.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/support/byte_buffer.h>

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace sluice {

// What a message may hold, in all its lists together.
struct MessageLimits {
  size_t bytes = size_t{64} << 20;     // serialized
  int64_t entries = int64_t{1} << 18;  // texts, and messages within the message
  int64_t numbers = int64_t{1} << 24;
};

// Looks at a serialized message without parsing it. RESOURCE_EXHAUSTED where it has more bytes than
// `limits`, INVALID_ARGUMENT naming the field in which it has more of something else. Bytes that
// are no such message may pass: their parser refuses them.
absl::Status CheckMessage(const grpc::ByteBuffer& bytes, const google::protobuf::Descriptor& type,
                          const MessageLimits& limits = {});

// Errors of CheckMessage; INVALID_ARGUMENT where the bytes are no Message, or a string in it is not
// UTF-8.
template <class Message>
absl::StatusOr<Message> ParseMessage(const grpc::ByteBuffer& bytes,
                                     const MessageLimits& limits = {}) {
  const absl::Status checked = CheckMessage(bytes, *Message::descriptor(), limits);
  if (!checked.ok()) return checked;
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
