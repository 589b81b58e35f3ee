#include "services/gateway/batches/input_check.h"

#include <functional>
#include <optional>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "services/gateway/batches/batch_line.h"
#include "services/gateway/json/object_reader.h"

namespace sluice::gateway {
namespace {

constexpr size_t kMostErrors = 100;  // that are shown

std::string PayloadOf(const absl::Status& status, const char* name) {
  return std::string(status.GetPayload(name).value_or(absl::Cord()));
}

}  // namespace

bool InputCheck::Step(int num_lines) {
  for (int i = 0; i < num_lines; ++i) {
    const std::optional<FileLine> line = file_.Next();
    if (!line.has_value()) {
      if (num_lines_ == 0 && errors_.empty()) Add(0, "empty_file", "The file has no lines.", "");
      return false;
    }
    Check(*line);
    if (errors_.size() >= kMostErrors || num_lines_ > limits_.max_lines) return false;
  }
  return true;
}

void InputCheck::Check(const FileLine& line) {
  if (++num_lines_ > limits_.max_lines) {
    return Add(line.number, "too_many_lines",
               absl::StrCat("A batch has at most ", limits_.max_lines, " lines."), "");
  }
  if (line.text.size() > limits_.max_line_bytes) {
    return Add(line.number, "line_too_long",
               absl::StrCat("A line has at most ", limits_.max_line_bytes, " bytes."), "");
  }
  const absl::StatusOr<BatchLine> read = ReadBatchLine(line.text, endpoint_);
  if (!read.ok()) {
    return Add(line.number, PayloadOf(read.status(), kCodePayload),
               std::string(read.status().message()), PayloadOf(read.status(), kParameterPayload));
  }
  if (!custom_ids_.insert(std::hash<std::string>()(read->custom_id)).second) {
    Add(line.number, "duplicate_custom_id",
        absl::StrCat("Another line has the custom_id '", read->custom_id, "' as well."),
        "custom_id");
  }
}

void InputCheck::Add(int64_t line, const std::string& code, const std::string& message,
                     const std::string& parameter) {
  const auto or_null = [](const std::string& text) {
    return text.empty() ? nlohmann::json(nullptr) : nlohmann::json(text);
  };
  errors_.push_back({{"code", code.empty() ? "invalid_value" : code},
                     {"line", line > 0 ? nlohmann::json(line) : nlohmann::json(nullptr)},
                     {"message", message},
                     {"param", or_null(parameter)}});
}

}  // namespace sluice::gateway
