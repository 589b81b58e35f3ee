// The sequences of one DetokenizeStream call: each has its text stream, under the caller's id. For
// one thread, as the requests of a stream come one at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>

#include "absl/status/status.h"
#include "services/tokenizer/stop_strings.h"
#include "services/tokenizer/text_stream.h"
#include "services/tokenizer/tokenizer.h"
#include "sluice/v1/tokenizer.pb.h"

namespace sluice {

class DetokenizeSession {
 public:
  // A caller that opens more than this many sequences at once gets RESOURCE_EXHAUSTED for the next
  // one.
  static constexpr size_t kMaxSequences = 65536;

  // Borrows the tokenizer.
  explicit DetokenizeSession(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  // The answers to a request and those that came with it, if there are any. What is wrong with a
  // sequence is answered on its id and ends it alone.
  std::optional<v1::DetokenizeStreamResponse> HandleAll(const v1::DetokenizeStreamRequest& request);

 private:
  struct Sequence {
    StopStrings stop_strings;
    std::optional<TextStream> text;  // borrows stop_strings
  };

  std::optional<v1::DetokenizeStreamResponse> Handle(const v1::DetokenizeStreamRequest& request);
  absl::Status Open(uint64_t id, const v1::DetokenizeOpen& open);
  absl::Status Append(uint64_t id, const v1::DetokenizeAppend& append,
                      v1::DetokenizeStreamResponse& response);
  absl::Status Finish(uint64_t id, v1::DetokenizeStreamResponse& response);

  const Tokenizer& tokenizer_;
  std::unordered_map<uint64_t, std::unique_ptr<Sequence>> sequences_;
};

}  // namespace sluice
