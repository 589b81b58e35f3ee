#include "services/messages/raw_message.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include <algorithm>

#include "services/messages/error_reason.h"

namespace sluice {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::internal::WireFormatLite;

// As deep as protobuf's parser goes.
constexpr int kMostDepth = 100;

WireFormatLite::WireType WireTypeOf(uint32_t tag) { return WireFormatLite::GetTagWireType(tag); }

// Where it is not packed.
WireFormatLite::WireType WireTypeOf(const FieldDescriptor& field) {
  return WireFormatLite::WireTypeForFieldType(static_cast<WireFormatLite::FieldType>(field.type()));
}

// Counts what a message holds, tag by tag. Wherever the bytes are malformed it stops: what it has
// counted by then is what a parser would have made of them.
class Counter {
 public:
  Counter(grpc::ProtoBufferReader* bytes, const MessageLimits& limits)
      : in_(bytes), limits_(limits) {}

  // False where that is the end: too much of something, or nothing that can be read. Null: of a
  // group, in which nothing is known.
  bool Count(const Descriptor* type, int depth) {
    while (const uint32_t tag = in_.ReadTag()) {
      // Of the group that is being counted; a parser takes no message that has one elsewhere.
      if (WireTypeOf(tag) == WireFormatLite::WIRETYPE_END_GROUP) return true;
      const FieldDescriptor* const field =
          type == nullptr ? nullptr
                          : type->FindFieldByNumber(WireFormatLite::GetTagFieldNumber(tag));
      if (!CountField(tag, field, depth)) return false;
    }
    return true;
  }

  absl::Status status() const {
    if (entries_ > limits_.entries) return TooMany("texts and messages", limits_.entries);
    if (numbers_ > limits_.numbers) return TooMany("numbers", limits_.numbers);
    return absl::OkStatus();
  }

 private:
  bool CountField(uint32_t tag, const FieldDescriptor* field, int depth) {
    field_ = field;
    switch (WireTypeOf(tag)) {
      case WireFormatLite::WIRETYPE_LENGTH_DELIMITED:
        return CountEntry(field, depth);
      case WireFormatLite::WIRETYPE_START_GROUP:
        ++entries_;
        return status().ok() && depth < kMostDepth && Count(nullptr, depth + 1);
      default:
        // One that is not known, or is none of its field's, is kept as an entry of its own.
        ++(field != nullptr && WireTypeOf(*field) == WireTypeOf(tag) ? numbers_ : entries_);
        return status().ok() && WireFormatLite::SkipField(&in_, tag);
    }
  }

  bool CountEntry(const FieldDescriptor* field, int depth) {
    ++entries_;
    int length = 0;
    if (!status().ok() || !in_.ReadVarintSizeAsInt(&length)) return false;
    const bool is_message = field != nullptr && field->type() == FieldDescriptor::TYPE_MESSAGE;
    // A text; or unknown, as a single number is that comes as a list.
    if (!is_message && (field == nullptr || !field->is_packable())) return in_.Skip(length);
    const auto limit = in_.PushLimit(length);
    bool whole = is_message ? depth < kMostDepth && Count(field->message_type(), depth + 1)
                            : CountPacked(*field, length);
    whole = whole && in_.BytesUntilLimit() == 0;
    in_.PopLimit(limit);
    return whole;
  }

  bool CountPacked(const FieldDescriptor& field, int length) {
    if (WireTypeOf(field) == WireFormatLite::WIRETYPE_VARINT) return CountVarints(length);
    numbers_ += length / (WireTypeOf(field) == WireFormatLite::WIRETYPE_FIXED64 ? 8 : 4);
    return status().ok() && in_.Skip(length);
  }

  // The last byte of each has its highest bit clear.
  bool CountVarints(int length) {
    while (length > 0) {
      const void* data = nullptr;
      int size = 0;
      if (!in_.GetDirectBufferPointer(&data, &size)) return false;
      size = std::min(size, length);
      const auto* const bytes = static_cast<const int8_t*>(data);
      numbers_ += std::count_if(bytes, bytes + size, [](int8_t byte) { return byte >= 0; });
      if (!status().ok() || !in_.Skip(size)) return false;
      length -= size;
    }
    return true;
  }

  absl::Status TooMany(const char* what, int64_t most) const {
    return absl::InvalidArgumentError(
        absl::StrCat("the request holds more than ", most, " ", what,
                     field_ == nullptr ? "" : absl::StrCat(", at last in ", field_->full_name())));
  }

  google::protobuf::io::CodedInputStream in_;
  const MessageLimits limits_;
  const FieldDescriptor* field_ = nullptr;  // the last one; null: it is not known
  int64_t entries_ = 0;
  int64_t numbers_ = 0;
};

}  // namespace

absl::Status CheckMessage(const grpc::ByteBuffer& bytes, const Descriptor& type,
                          const MessageLimits& limits) {
  if (bytes.Length() > limits.bytes) {
    return IfExhaustedTooLarge(absl::ResourceExhaustedError(absl::StrCat(
        "the request has ", bytes.Length(), " bytes; accepted: up to ", limits.bytes)));
  }
  grpc::ByteBuffer copy(bytes);  // shares the bytes; reading consumes the buffer
  grpc::ProtoBufferReader reader(&copy);
  Counter counter(&reader, limits);
  counter.Count(&type, 0);
  return counter.status();
}

}  // namespace sluice
