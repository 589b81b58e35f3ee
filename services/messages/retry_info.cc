#include "services/messages/retry_info.h"

#include <google/protobuf/duration.pb.h>
#include <google/protobuf/unknown_field_set.h>

#include <string>

#include "absl/strings/cord.h"

namespace sluice {
namespace {

constexpr char kRetryInfo[] = "type.googleapis.com/google.rpc.RetryInfo";
constexpr int kRetryDelayField = 1;

}  // namespace

// Debian has no google/rpc/error_details.proto; a RetryInfo is a message with a Duration in it.
absl::Status WithRetryDelay(absl::Status status, absl::Duration delay) {
  google::protobuf::Duration duration;
  duration.set_seconds(absl::IDivDuration(delay, absl::Seconds(1), &delay));
  duration.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(delay)));
  google::protobuf::UnknownFieldSet retry_info;
  retry_info.AddLengthDelimited(kRetryDelayField, duration.SerializeAsString());
  std::string bytes;
  retry_info.SerializeToString(&bytes);
  status.SetPayload(kRetryInfo, absl::Cord(bytes));
  return status;
}

std::optional<absl::Duration> RetryDelay(const absl::Status& status) {
  const auto payload = status.GetPayload(kRetryInfo);
  google::protobuf::UnknownFieldSet retry_info;
  if (!payload.has_value() || !retry_info.ParseFromString(std::string(*payload))) {
    return std::nullopt;
  }
  for (int i = 0; i < retry_info.field_count(); ++i) {
    const google::protobuf::UnknownField& field = retry_info.field(i);
    google::protobuf::Duration delay;
    if (field.number() == kRetryDelayField &&
        field.type() == google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED &&
        delay.ParseFromString(field.length_delimited())) {
      return absl::Seconds(delay.seconds()) + absl::Nanoseconds(delay.nanos());
    }
  }
  return std::nullopt;
}

}  // namespace sluice
