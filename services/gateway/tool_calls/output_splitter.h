// Splits what a model writes, piece by piece as it comes, into what is for the reader, what it
// thought (<think>..</think>), and calls of tools. What might still become a tag is held back until
// it is known; the arguments of a call are handed on as they come where they are JSON. Whatever looks
// like a call and is none stays text: nothing is lost.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "services/gateway/tool_calls/call_reader.h"
#include "services/gateway/tool_calls/format.h"
#include "services/gateway/tool_calls/harmony_splitter.h"
#include "services/gateway/tool_calls/json_calls.h"
#include "services/gateway/tool_calls/output_piece.h"
#include "services/gateway/tool_calls/output_style.h"
#include "services/gateway/tool_calls/tool_call.h"
#include "services/gateway/tool_calls/tool_choice.h"

namespace sluice::gateway {

class OutputSplitter {
 public:
  // Separates thoughts where the text begins with <think>; `begins_in_thought` where the prompt has
  // ended with that tag already.
  OutputSplitter(ToolFormat format, bool begins_in_thought);
  // The same for any style. Calls are found where `tools` were offered, whose schemas tell what type
  // a value has that is written as plain text.
  OutputSplitter(const OutputStyle& style, std::vector<OfferedTool> tools);
  // For a text that is the arguments of one call of this tool, and nothing else.
  static OutputSplitter OfArguments(std::string tool);

  // `num_tokens` are those that came with the text.
  OutputPiece Add(absl::string_view text, int num_tokens = 0);
  // The text has ended.
  OutputPiece Finish();

  // Of the tokens that came, those of thoughts and their tags, as exactly as pieces tell: all that came
  // with a piece are of the thought that it began in.
  int64_t num_thought_tokens() const { return num_thought_tokens_; }

 private:
  enum class State { kBeginning, kThought, kBehindThought, kText, kCall, kArguments };

  // Each hands on what is certain of pending_, and is true where another state goes on with it.
  bool Advance(OutputPiece& piece, bool at_end);
  bool AdvanceBeginning(bool at_end);
  bool AdvanceThought(OutputPiece& piece, bool at_end);
  bool AdvanceBehindThought(bool at_end);
  bool AdvanceText(OutputPiece& piece, bool at_end);
  bool AdvanceJsonCall(OutputPiece& piece, bool at_end);
  bool AdvancePythonCall(OutputPiece& piece, bool at_end);
  bool AdvanceTaggedCall(OutputPiece& piece, bool at_end);
  bool AdvanceArguments(OutputPiece& piece);
  void BeginThought();
  void BeginCalls(std::string tag);
  // Goes on with the text behind calls, or behind what looked like them.
  void EndCalls(bool has_calls);

  const ToolFormat format_;
  const ReasoningTags reasoning_;
  std::unique_ptr<const std::vector<OfferedTool>> tools_;
  std::unique_ptr<HarmonySplitter> harmony_;  // does all the work where the format is that one
  State state_;
  std::string pending_;  // what came and is not handed on yet
  std::string tag_;      // in kCall: what began it
  std::string tool_;     // in kArguments, before they begin: whose they are
  JsonCallReader json_calls_;
  std::unique_ptr<CallReader> tagged_calls_;  // in kCall of a format that has a reader
  bool has_text_tag_ = false;                 // the tag that ends the text behind reasoning is due
  bool has_text_ = false;                     // since the beginning, or since the last call
  int64_t num_thought_tokens_ = 0;
  bool drops_line_break_ = false;  // one at the front of the thought belongs to its tag
  bool drops_space_ = false;       // white space at the front of the text belongs to a tag before
};

}  // namespace sluice::gateway
