#include "services/gateway/batches/batch_line.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "services/gateway/json/json_text.h"
#include "services/gateway/json/object_reader.h"
#include "services/gateway/json/raw_member.h"

namespace sluice::gateway {
namespace {

using nlohmann::json;

constexpr std::array<absl::string_view, 3> kEndpoints = {"/v1/chat/completions", "/v1/completions",
                                                         "/v1/responses"};
constexpr size_t kLongestCustomId = 512;
constexpr char kLineBegin[] = R"({"id":"batch_req_)";

std::string LineId(absl::string_view run_id, int64_t number) {
  return absl::StrCat("batch_req_", run_id, "_", number);
}

// Members in this order: NumberOfLine() reads the first.
std::string LineText(absl::string_view run_id, int64_t number, const std::string& custom_id,
                     absl::string_view response, absl::string_view error) {
  return absl::StrCat(R"({"id":")", LineId(run_id, number), R"(","custom_id":)",
                      ToJson(json(custom_id)), R"(,"response":)", response, R"(,"error":)", error,
                      "}\n");
}

absl::Status CheckUrl(absl::string_view url, absl::string_view endpoint) {
  if (!endpoint.empty() && url != endpoint) {
    return ParameterError(
        "url", "mismatched_endpoint",
        absl::StrCat("The url '", url, "' is not the batch's endpoint, '", endpoint, "'."));
  }
  if (IsBatchEndpoint(url)) return absl::OkStatus();
  return ParameterError("url", "invalid_url",
                        absl::StrCat("The url '", url,
                                     "' can not be called in a batch. Supported "
                                     "values are: ",
                                     BatchEndpointsText(), "."));
}

}  // namespace

std::string BatchEndpointsText() {
  return absl::StrJoin(kEndpoints, ", ", [](std::string* out, absl::string_view endpoint) {
    absl::StrAppend(out, "'", endpoint, "'");
  });
}

bool IsBatchEndpoint(absl::string_view path) {
  return std::find(kEndpoints.begin(), kEndpoints.end(), path) != kEndpoints.end();
}

absl::StatusOr<BatchLine> ReadBatchLine(absl::string_view text, absl::string_view endpoint) {
  const absl::StatusOr<json> value = ParseJson(text);
  if (!value.ok() || !value->is_object()) {
    return ParameterError(
        "", "invalid_json_line",
        value.ok() ? "This line is no JSON object." : std::string(value.status().message()));
  }
  ObjectReader reader(*value);
  BatchLine line = {.custom_id = reader.String("custom_id").value_or(""),
                    .url = reader.String("url").value_or(""),
                    .body = ""};
  const std::string method = reader.String("method").value_or("POST");
  const json* const body = reader.Object("body");
  if (absl::Status status = reader.Finish(); !status.ok()) return status;
  if (line.custom_id.empty() || line.custom_id.size() > kLongestCustomId) {
    return ParameterError(
        "custom_id", "missing_required_parameter",
        absl::StrCat("'custom_id' is a text of 1 to ", kLongestCustomId, " bytes."));
  }
  if (method != "POST") {
    return ParameterError("method", "invalid_method", "'method' is 'POST' alone.");
  }
  if (absl::Status status = CheckUrl(line.url, endpoint); !status.ok()) return status;
  if (body == nullptr) {
    return ParameterError("body", "missing_required_parameter",
                          "Missing required parameter: 'body'.");
  }
  if (body->value("stream", json(false)) == json(true)) {
    return ParameterError("body.stream", "invalid_value", "A batch has no streams.");
  }
  line.body = std::string(RawMember(text, {"body"}).value_or("{}"));
  return line;
}

std::string AnsweredLine(absl::string_view run_id, int64_t number, const std::string& custom_id,
                         const http::Response& response) {
  const auto header = std::find_if(response.headers.begin(), response.headers.end(),
                                   [](const auto& h) { return h.first == "x-request-id"; });
  const std::string request_id = header == response.headers.end() ? "" : header->second;
  const std::string text = absl::StrCat(R"({"status_code":)", response.status, R"(,"request_id":)",
                                        ToJson(json(request_id)), R"(,"body":)",
                                        response.body.empty() ? "null" : response.body, "}");
  return LineText(run_id, number, custom_id, text, "null");
}

std::string UnansweredLine(absl::string_view run_id, int64_t number, const std::string& custom_id,
                           absl::string_view code, absl::string_view message) {
  const json error = {{"code", std::string(code)}, {"message", std::string(message)}};
  return LineText(run_id, number, custom_id, "null", ToJson(error));
}

std::optional<int64_t> NumberOfLine(absl::string_view line, absl::string_view run_id) {
  absl::ConsumeSuffix(&line, "\n");
  int64_t number = 0;
  if (!absl::EndsWith(line, "}") || !absl::ConsumePrefix(&line, kLineBegin) ||
      !absl::ConsumePrefix(&line, run_id) || !absl::ConsumePrefix(&line, "_") ||
      !absl::SimpleAtoi(line.substr(0, line.find('"')), &number) || number < 1) {
    return std::nullopt;
  }
  return number;
}

bool BeginsAsLine(absl::string_view text, absl::string_view run_id) {
  const std::string begin = absl::StrCat(kLineBegin, run_id, "_");
  return absl::StartsWith(text, begin) || absl::StartsWith(begin, text);
}

}  // namespace sluice::gateway
