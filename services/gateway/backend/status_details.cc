#include "services/gateway/backend/status_details.h"

#include <google/protobuf/any.pb.h>
#include <google/protobuf/duration.pb.h>
#include <google/protobuf/unknown_field_set.h>

#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "services/common/status.h"

namespace sluice::gateway {
namespace {

using google::protobuf::UnknownField;
using google::protobuf::UnknownFieldSet;

constexpr char kRetryPayload[] = "type.googleapis.com/google.rpc.RetryInfo";

// The first field of this number that holds bytes.
std::optional<std::string> BytesField(const std::string& message, int number) {
  UnknownFieldSet fields;
  if (!fields.ParseFromString(message)) return std::nullopt;
  for (int i = 0; i < fields.field_count(); ++i) {
    const UnknownField& field = fields.field(i);
    if (field.number() == number && field.type() == UnknownField::TYPE_LENGTH_DELIMITED) {
      return field.length_delimited();
    }
  }
  return std::nullopt;
}

// From a google.rpc.Status (details: repeated Any = 3) the RetryInfo (retry_delay: Duration = 1).
std::optional<absl::Duration> RetryDelayIn(const std::string& details) {
  UnknownFieldSet fields;
  if (details.empty() || !fields.ParseFromString(details)) return std::nullopt;
  for (int i = 0; i < fields.field_count(); ++i) {
    const UnknownField& field = fields.field(i);
    if (field.number() != 3 || field.type() != UnknownField::TYPE_LENGTH_DELIMITED) continue;
    google::protobuf::Any any;
    if (!any.ParseFromString(field.length_delimited())) continue;
    if (!absl::EndsWith(any.type_url(), "/google.rpc.RetryInfo")) continue;
    const std::optional<std::string> bytes = BytesField(any.value(), 1);
    google::protobuf::Duration delay;
    if (!bytes.has_value() || !delay.ParseFromString(*bytes)) continue;
    return absl::Seconds(delay.seconds()) + absl::Nanoseconds(delay.nanos());
  }
  return std::nullopt;
}

}  // namespace

absl::Status WithRetryDelay(absl::Status status, absl::Duration delay) {
  status.SetPayload(kRetryPayload, absl::Cord(absl::FormatDuration(delay)));
  return status;
}

absl::Status StatusFrom(const grpc::Status& status) {
  const std::optional<absl::Duration> delay = RetryDelayIn(status.error_details());
  return delay.has_value() ? WithRetryDelay(FromGrpc(status), *delay) : FromGrpc(status);
}

std::optional<absl::Duration> RetryDelay(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kRetryPayload);
  absl::Duration delay;
  if (!payload.has_value() || !absl::ParseDuration(std::string(*payload), &delay)) {
    return std::nullopt;
  }
  return delay;
}

}  // namespace sluice::gateway
