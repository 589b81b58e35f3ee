// Calls as Gemma 4 writes them: <|tool_call>call:NAME{KEY:VALUE,..}<tool_call|>. A value is an object or
// a list in the same form, a string between two <|"|>, which nothing in it escapes, or a number, true,
// false or null.
#pragma once

#include <string>
#include <vector>

#include "services/gateway/tool_calls/call_reader.h"

namespace sluice::gateway {

inline constexpr char kGemma4CallBegin[] = "<|tool_call>";
inline constexpr char kGemma4CallEnd[] = "<tool_call|>";
inline constexpr char kGemma4Quote[] = "<|\"|>";

// Reads one call, behind the tag that begins it. Arguments become JSON as they come: strings letter by
// letter, other values once they are whole. What is neither a number nor one of the three words is a
// string.
class BraceCallReader : public CallReader {
 public:
  bool Read(std::string& text, bool at_end, std::vector<ToolCallPiece>& pieces) override;

 private:
  enum class State { kHead, kArguments, kString, kEnd, kEnded };

  // Each is true where the state has changed.
  bool ReadHead(std::string& text, bool at_end, std::vector<ToolCallPiece>& pieces);
  bool ReadArguments(std::string& text, bool at_end, std::vector<ToolCallPiece>& pieces);
  bool ReadString(std::string& text, bool at_end, std::vector<ToolCallPiece>& pieces);
  bool ReadEnd(std::string& text, bool at_end);
  // Takes what stands before a bracket, a comma or a colon: a key or a value.
  void TakeBare(absl::string_view bare, bool is_key, std::vector<ToolCallPiece>& pieces);
  void TakeMark(char mark, std::vector<ToolCallPiece>& pieces);

  State state_ = State::kHead;
  std::string open_;  // what closes the brackets that are open, the innermost last
};

}  // namespace sluice::gateway
