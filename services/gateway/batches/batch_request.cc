#include "services/gateway/batches/batch_request.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "services/gateway/batches/batch_line.h"
#include "services/gateway/json/object_reader.h"

namespace sluice::gateway {
namespace {

using nlohmann::json;

constexpr size_t kMostMetadata = 16;
constexpr int64_t kLongestWindow = 30 * 24;  // hours

void CheckMetadata(const json& metadata, ObjectReader& reader) {
  const bool fits = metadata.size() <= kMostMetadata &&
                    std::all_of(metadata.begin(), metadata.end(), [](const json& value) {
                      return value.is_string() && value.get_ref<const std::string&>().size() <= 512;
                    });
  if (!fits) {
    reader.Fail("metadata", "invalid_value",
                "'metadata' has at most 16 members, which are texts of up to 512 bytes.");
  }
}

}  // namespace

std::optional<int64_t> HoursOf(absl::string_view window) {
  int64_t number = 0;
  if (window.size() < 2 || !absl::SimpleAtoi(window.substr(0, window.size() - 1), &number)) {
    return std::nullopt;
  }
  if (window.back() == 'd') number *= 24;
  if ((window.back() != 'h' && window.back() != 'd') || number < 1 || number > kLongestWindow) {
    return std::nullopt;
  }
  return number;
}

absl::StatusOr<BatchRequest> ReadBatchRequest(const json& body, absl::string_view) {
  ObjectReader reader(body);
  BatchRequest request;
  request.input_file_id = reader.String("input_file_id").value_or("");
  request.endpoint = reader.String("endpoint").value_or("");
  request.completion_window = reader.String("completion_window").value_or("24h");
  if (const json* metadata = reader.Object("metadata")) {
    request.metadata = *metadata;
    CheckMetadata(*metadata, reader);
  }
  reader.Refuse({"output_expires_after"}, "results stay until they are deleted");
  if (!request.endpoint.empty() && !IsBatchEndpoint(request.endpoint)) {
    reader.Fail("endpoint", "invalid_value",
                absl::StrCat("Unsupported value: 'endpoint' is '", request.endpoint,
                             "'. Supported values are: ", BatchEndpointsText(), "."));
  }
  if (!HoursOf(request.completion_window).has_value()) {
    reader.Fail("completion_window", "invalid_value",
                "'completion_window' is a number of hours or days, such as '24h' or '7d', up to "
                "'30d'.");
  }
  if (absl::Status status = reader.Finish(); !status.ok()) return status;
  for (const auto& [name, value] : {std::pair("input_file_id", &request.input_file_id),
                                    std::pair("endpoint", &request.endpoint)}) {
    if (!value->empty()) continue;
    return ParameterError(name, "missing_required_parameter",
                          absl::StrCat("Missing required parameter: '", name, "'."));
  }
  return request;
}

}  // namespace sluice::gateway
