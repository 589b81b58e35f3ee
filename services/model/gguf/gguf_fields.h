// Typed reading of GGUF metadata. A getter that meets a value of another type keeps the first
// error, for status(), and returns nothing. Not thread-safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "services/model/gguf/gguf_container.h"

namespace sluice {

// What a model's GGUF files hold, borrowed: the metadata of the first, the tensors of all.
struct GgufView {
  const std::string& source;  // for messages
  const GgufMetadata& metadata;
  const GgufTensors& tensors;

  // These return nullptr where there is none.
  const GgufTensor* FindTensor(std::string_view name) const {
    const auto found = tensors.find(name);
    return found == tensors.end() ? nullptr : &found->second;
  }
  const GgufValue* Find(std::string_view key) const {
    const auto found = metadata.find(key);
    return found == metadata.end() ? nullptr : &found->second;
  }
};

class GgufFields {
 public:
  explicit GgufFields(const GgufView& view) : view_(view) {}

  const GgufView& view() const { return view_; }

  // An integer, or an array of equal ones, as for each layer.
  std::optional<int64_t> Int(const std::string& key);
  // The numbers of an array, or the only one; empty where there is none. Truths count as 0 and 1.
  std::vector<int64_t> Ints(const std::string& key);
  std::optional<double> Number(const std::string& key);
  std::optional<bool> Bool(const std::string& key);
  std::optional<std::string> Text(const std::string& key);

  // Records "<source>: <key> is <value>; accepted: <accepted>".
  void Reject(const std::string& key, const std::string& accepted,
              absl::StatusCode code = absl::StatusCode::kInvalidArgument);
  // Records "<source>: <message>".
  void Fail(const std::string& message, absl::StatusCode code = absl::StatusCode::kInvalidArgument);

  const absl::Status& status() const { return status_; }

 private:
  const GgufView& view_;
  absl::Status status_;
};

}  // namespace sluice
