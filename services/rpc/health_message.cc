#include "services/rpc/health_message.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

// HealthCheckRequest has the service's name in field 1, HealthCheckResponse the state.
constexpr char kNameField = 0x0a;
constexpr char kStateField = 0x08;
constexpr size_t kLongestName = 127;  // whose length is one byte

}  // namespace

const char* Name(HealthState state) {
  switch (state) {
    case HealthState::kUnknown:
      return "UNKNOWN";
    case HealthState::kServing:
      return "SERVING";
    case HealthState::kNotServing:
      return "NOT_SERVING";
    case HealthState::kServiceUnknown:
      return "SERVICE_UNKNOWN";
  }
  return "UNKNOWN";
}

absl::StatusOr<grpc::ByteBuffer> HealthCheckRequest(absl::string_view service) {
  if (service.size() > kLongestName) {
    return absl::InvalidArgumentError(
        absl::StrCat("the service's name has ", service.size(), " bytes; accepted: 0 to 127"));
  }
  std::string bytes;
  if (!service.empty()) {
    bytes = absl::StrCat(std::string(1, kNameField),
                         std::string(1, static_cast<char>(service.size())), service);
  }
  const grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

absl::StatusOr<HealthState> HealthStateIn(const grpc::ByteBuffer& response) {
  std::vector<grpc::Slice> slices;
  if (!response.Dump(&slices).ok()) return absl::InternalError("the answer can't be read");
  std::string bytes;
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  if (bytes.empty()) return HealthState::kUnknown;
  const bool known = bytes.size() == 2 && bytes[0] == kStateField && bytes[1] >= 0 && bytes[1] <= 3;
  if (!known) return absl::InternalError("the answer is none of grpc.health.v1");
  return static_cast<HealthState>(bytes[1]);
}

}  // namespace sluice
