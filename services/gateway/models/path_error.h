// Errors of whatever stands before the APIs, spelled as the API of the path spells them.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "services/gateway/http/message.h"

namespace sluice::gateway {

http::Response PathError(absl::string_view path, const absl::Status& status);

// 404: no model of this name is served.
http::Response UnknownModelError(absl::string_view path, const std::string& model);

}  // namespace sluice::gateway
