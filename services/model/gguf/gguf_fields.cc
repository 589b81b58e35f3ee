#include "services/model/gguf/gguf_fields.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace sluice {

std::optional<int64_t> GgufFields::Int(const std::string& key) {
  const GgufValue* value = view_.Find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto number = value->Int()) return number;
  const auto list = value->Ints();
  if (!list.has_value() || list->empty()) {
    Reject(key, "an integer");
    return std::nullopt;
  }
  if (std::count(list->begin(), list->end(), list->front()) == static_cast<int64_t>(list->size())) {
    return list->front();
  }
  Reject(key, "an integer, or the same one for all layers", absl::StatusCode::kUnimplemented);
  return std::nullopt;
}

std::vector<int64_t> GgufFields::Ints(const std::string& key) {
  const GgufValue* value = view_.Find(key);
  if (value == nullptr) return {};
  if (const auto number = value->Int()) return {*number};
  if (const auto list = value->Ints()) return *list;
  if (value->is_array() && value->type() == GgufValueType::kBool) {
    std::vector<int64_t> truths;
    for (const std::byte each : value->bytes()) truths.push_back(each != std::byte{0} ? 1 : 0);
    return truths;
  }
  Reject(key, "an integer or a list of integers");
  return {};
}

std::optional<double> GgufFields::Number(const std::string& key) {
  const GgufValue* value = view_.Find(key);
  if (value == nullptr) return std::nullopt;
  const auto number = value->Number();
  if (number.has_value() && std::isfinite(*number)) return number;
  Reject(key, "a finite number");
  return std::nullopt;
}

std::optional<bool> GgufFields::Bool(const std::string& key) {
  const GgufValue* value = view_.Find(key);
  if (value == nullptr) return std::nullopt;
  const auto truth = value->Bool();
  if (!truth.has_value()) Reject(key, "true or false");
  return truth;
}

std::optional<std::string> GgufFields::Text(const std::string& key) {
  const GgufValue* value = view_.Find(key);
  if (value == nullptr) return std::nullopt;
  const auto text = value->Text();
  if (!text.has_value()) {
    Reject(key, "a text");
    return std::nullopt;
  }
  return std::string(*text);
}

void GgufFields::Reject(const std::string& key, const std::string& accepted,
                        absl::StatusCode code) {
  const GgufValue* value = view_.Find(key);
  Fail(absl::StrCat(key, " is ", value == nullptr ? "missing" : value->ForMessage(),
                    "; accepted: ", accepted),
       code);
}

void GgufFields::Fail(const std::string& message, absl::StatusCode code) {
  if (status_.ok()) status_ = absl::Status(code, absl::StrCat(view_.source, ": ", message));
}

}  // namespace sluice
