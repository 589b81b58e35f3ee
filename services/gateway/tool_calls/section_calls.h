// Calls in a section of special tokens: the name, a separator, the arguments as JSON. Kimi and
// DeepSeek write them so.
#pragma once

#include <string>
#include <vector>

#include "services/gateway/tool_calls/call_reader.h"

namespace sluice::gateway {

// The tags of a format.
struct SectionTags {
  const char* section_begin;
  const char* call_begin;
  const char* separator;
  const char* call_end;
  const char* section_end;
};

// Kimi K2: <|tool_calls_section_begin|><|tool_call_begin|>functions.NAME:0
// <|tool_call_argument_begin|>{..}<|tool_call_end|>..<|tool_calls_section_end|>, without line breaks.
extern const SectionTags kKimiTags;
// DeepSeek V3.1: <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>NAME<｜tool▁sep｜>{..}<｜tool▁call▁end｜>
// ..<｜tool▁calls▁end｜>. V3 and R1 write "function" before the separator; behind it follow the name,
// a line break, and the arguments in a block of ```json.
extern const SectionTags kDeepSeekTags;

class SectionCallReader : public CallReader {
 public:
  // `begun_by` is the tag that was read: that of a section, or of a call.
  SectionCallReader(const SectionTags& tags, absl::string_view begun_by);

  bool Read(std::string& text, bool at_end, std::vector<ToolCallPiece>& pieces) override;

 private:
  enum class State { kBetween, kHead, kFencedHead, kArguments, kEnded };

  // Each is true where the state has changed.
  bool ReadBetween(std::string& text, bool at_end);
  bool ReadHead(std::string& text, bool at_end, std::vector<ToolCallPiece>& pieces);
  bool ReadFencedHead(std::string& text, bool at_end, std::vector<ToolCallPiece>& pieces);
  bool ReadArguments(std::string& text, bool at_end, std::vector<ToolCallPiece>& pieces);
  void EndHead(std::string name, std::string& text, size_t size,
               std::vector<ToolCallPiece>& pieces);

  const SectionTags tags_;
  State state_;
  bool is_fenced_ = false;
  bool has_arguments_ = false;
};

}  // namespace sluice::gateway
