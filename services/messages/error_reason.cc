#include "services/messages/error_reason.h"

#include <google/protobuf/unknown_field_set.h>

#include <utility>

#include "absl/strings/cord.h"

namespace sluice {
namespace {

constexpr char kErrorInfo[] = "type.googleapis.com/google.rpc.ErrorInfo";
constexpr char kDomain[] = "sluice";
constexpr int kReasonField = 1;
constexpr int kDomainField = 2;

}  // namespace

// Debian has no google/rpc/error_details.proto; an ErrorInfo is a message with two texts.
absl::Status WithErrorReason(absl::Status status, absl::string_view reason) {
  google::protobuf::UnknownFieldSet info;
  info.AddLengthDelimited(kReasonField, std::string(reason));
  info.AddLengthDelimited(kDomainField, kDomain);
  std::string bytes;
  info.SerializeToString(&bytes);
  status.SetPayload(kErrorInfo, absl::Cord(bytes));
  return status;
}

absl::Status IfExhaustedTooLarge(absl::Status status) {
  if (!absl::IsResourceExhausted(status) || ErrorReason(status).has_value()) return status;
  return WithErrorReason(std::move(status), kRequestTooLarge);
}

std::optional<std::string> ErrorReason(const absl::Status& status) {
  const auto payload = status.GetPayload(kErrorInfo);
  google::protobuf::UnknownFieldSet info;
  if (!payload.has_value() || !info.ParseFromString(std::string(*payload))) return std::nullopt;
  std::string reason;
  bool is_ours = false;
  for (int i = 0; i < info.field_count(); ++i) {
    const google::protobuf::UnknownField& field = info.field(i);
    if (field.type() != google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED) continue;
    if (field.number() == kReasonField) reason = field.length_delimited();
    if (field.number() == kDomainField) is_ours = field.length_delimited() == kDomain;
  }
  if (!is_ours || reason.empty()) return std::nullopt;
  return reason;
}

}  // namespace sluice
