#include "services/common/status.h"

#include <google/protobuf/any.pb.h>
#include <google/protobuf/unknown_field_set.h>

#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace sluice {
namespace {

using google::protobuf::UnknownField;
using google::protobuf::UnknownFieldSet;

// Fields of google.rpc.Status, of which Debian has no proto.
constexpr int kCodeField = 1;
constexpr int kMessageField = 2;
constexpr int kDetailsField = 3;  // repeated google.protobuf.Any

// "" where there are none.
std::string DetailsOf(const absl::Status& status) {
  UnknownFieldSet fields;
  status.ForEachPayload([&fields](absl::string_view type_url, const absl::Cord& payload) {
    google::protobuf::Any any;
    any.set_type_url(std::string(type_url));
    any.set_value(std::string(payload));
    fields.AddLengthDelimited(kDetailsField, any.SerializeAsString());
  });
  if (fields.empty()) return "";
  fields.AddVarint(kCodeField, static_cast<uint64_t>(status.raw_code()));
  fields.AddLengthDelimited(kMessageField, std::string(status.message()));
  std::string bytes;
  fields.SerializeToString(&bytes);
  return bytes;
}

// What can't be read is left out: it is advice.
void SetPayloads(const std::string& details, absl::Status& status) {
  UnknownFieldSet fields;
  if (details.empty() || !fields.ParseFromString(details)) return;
  for (int i = 0; i < fields.field_count(); ++i) {
    const UnknownField& field = fields.field(i);
    google::protobuf::Any any;
    if (field.number() == kDetailsField && field.type() == UnknownField::TYPE_LENGTH_DELIMITED &&
        any.ParseFromString(field.length_delimited())) {
      status.SetPayload(any.type_url(), absl::Cord(any.value()));
    }
  }
}

}  // namespace

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(static_cast<grpc::StatusCode>(status.raw_code()),
                      std::string(status.message()), DetailsOf(status));
}

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  absl::Status result(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
  SetPayloads(status.error_details(), result);
  return result;
}

absl::Status Annotate(const absl::Status& status, absl::string_view context) {
  if (status.ok()) return status;
  absl::Status result(status.code(), absl::StrCat(context, ": ", status.message()));
  status.ForEachPayload([&result](absl::string_view type_url, const absl::Cord& payload) {
    result.SetPayload(type_url, payload);
  });
  return result;
}

}  // namespace sluice
