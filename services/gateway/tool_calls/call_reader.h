// Reads the calls that one pair of tags encloses, piece by piece as the text comes. Each format whose
// calls are tagged has its own reader. Lives as long as the calls of one pair of tags.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "services/gateway/tool_calls/tool_call.h"

namespace sluice::gateway {

class CallReader {
 public:
  virtual ~CallReader() = default;

  // Reads from the front of `text`, removes what was read, and appends what is certain to `pieces`.
  // False: more text is needed, which the caller appends to `text`. True: no call follows; what is
  // left of `text` belongs to no call. With `at_end`, no more text comes and the result is true.
  virtual bool Read(std::string& text, bool at_end, std::vector<ToolCallPiece>& pieces) = 0;

  bool has_calls() const { return has_calls_; }
  // What was removed from the text. Means something only while has_calls() is false: it is text then.
  const std::string& unclaimed() const { return unclaimed_; }

 protected:
  // Moves the first `size` bytes of `text` to what is unclaimed.
  void Skip(std::string& text, size_t size) {
    if (!has_calls_) unclaimed_.append(text, 0, size);
    text.erase(0, size);
  }

  void Begin(std::string name, std::vector<ToolCallPiece>& pieces) {
    has_calls_ = true;
    unclaimed_.clear();
    pieces.push_back({std::move(name), ""});
  }

  // Of the call that was begun last.
  static void AppendArguments(absl::string_view arguments, std::vector<ToolCallPiece>& pieces) {
    if (arguments.empty()) return;
    if (pieces.empty()) pieces.emplace_back();
    pieces.back().arguments.append(arguments.data(), arguments.size());
  }

 private:
  bool has_calls_ = false;
  std::string unclaimed_;
};

}  // namespace sluice::gateway
