#include "services/gateway/models/path_error.h"

#include "absl/strings/match.h"
#include "services/gateway/anthropic/error.h"
#include "services/gateway/openai/error.h"

namespace sluice::gateway {
namespace {

bool IsAnthropic(absl::string_view path) { return absl::StartsWith(path, "/v1/messages"); }

}  // namespace

http::Response PathError(absl::string_view path, const absl::Status& status) {
  return IsAnthropic(path) ? anthropic::ErrorResponse(status) : openai::ErrorResponse(status);
}

http::Response UnknownModelError(absl::string_view path, const std::string& model) {
  return PathError(
      path, IsAnthropic(path) ? anthropic::ModelNotFound(model) : openai::ModelNotFound(model));
}

}  // namespace sluice::gateway
