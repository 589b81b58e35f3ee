// Splits what gpt-oss writes, the harmony format: messages, each a header and a body,
//
//   <|channel|>analysis<|message|>..<|end|><|start|>assistant<|channel|>final<|message|>..<|return|>
//
// The prompt has written the first <|start|>assistant. The channel "analysis" is reasoning; "final"
// is for the reader, as is "commentary" where it names no recipient. A message to=functions.NAME is a
// call, its body the arguments. Messages to other recipients, which are tools that the model was
// trained with, are reasoning. A text without a header is for the reader.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "services/gateway/tool_calls/output_piece.h"

namespace sluice::gateway {

class HarmonySplitter {
 public:
  // Hands on what is certain of all text that came; with `at_end`, no more comes.
  void Add(absl::string_view text, bool at_end, OutputPiece& piece);

  // Whether what comes next belongs to a message that is reasoning.
  bool is_reasoning() const { return state_ == State::kBody && kind_ == Kind::kReasoning; }

 private:
  enum class State { kBetween, kHeader, kBody };
  enum class Kind { kText, kReasoning, kCall };

  // Each is true where the state has changed.
  bool ReadBetween(bool at_end);
  bool ReadHeader(bool at_end, OutputPiece& piece);
  bool ReadBody(bool at_end, OutputPiece& piece);
  void BeginMessage(absl::string_view header, OutputPiece& piece);
  void Append(absl::string_view body, OutputPiece& piece);

  State state_ = State::kBetween;
  Kind kind_ = Kind::kText;
  std::string pending_;
  bool has_text_ = false;  // of earlier messages and this one
  bool has_reasoning_ = false;
  bool begins_message_ = false;  // nothing of its body has come
};

// All tags of the format.
std::vector<std::string> HarmonyTags();

}  // namespace sluice::gateway
