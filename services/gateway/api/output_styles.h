// The served model's format of tool calls and reasoning, detected from its chat template. Detected
// once for each set of template variables; a bounded number is cached. Thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "services/gateway/backend/backend.h"
#include "services/gateway/tool_calls/output_style.h"

namespace sluice::gateway {

class OutputStyles {
 public:
  // Borrows the backend. `tool_format` is taken instead of what the template tells.
  OutputStyles(Backend* backend, std::optional<ToolFormat> tool_format)
      : backend_(*backend), tool_format_(tool_format) {}

  using Callback = std::function<void(absl::StatusOr<OutputStyle>)>;

  // On the caller's loop; at once where it is known. That of plain texts where there is no
  // template, or none that writes calls. The server's status where it says nothing of the template.
  void Get(const Caller& caller, const std::string& model, const std::string& variables_json,
           Callback done);

 private:
  // The SHA-256 of both: clients choose the variables, and how long they are.
  using Key = std::array<uint8_t, 32>;
  static Key KeyOf(const std::string& model, const std::string& variables_json);

  void ProbeThought(const Caller& caller, const Key& key, const std::string& variables_json,
                    OutputStyle style, Callback done);
  void Keep(const Key& key, OutputStyle style);

  Backend& backend_;
  const std::optional<ToolFormat> tool_format_;
  absl::Mutex mutex_;
  std::map<Key, OutputStyle> styles_ ABSL_GUARDED_BY(mutex_);
  std::deque<Key> kept_ ABSL_GUARDED_BY(mutex_);  // of styles_, the oldest first
};

}  // namespace sluice::gateway
