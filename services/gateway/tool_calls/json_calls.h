// Calls as JSON writes them: {"name" or "tool_name": .., "arguments" or "parameters": {..}}, maybe with a
// "tool_call_id" in front, one after the other, by
// ',', ';' or white space, or in an array; or with their names before their arguments (named_call.h).
// Arguments are handed on letter by letter.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "services/gateway/tool_calls/tool_call.h"

namespace sluice::gateway {

class JsonCallReader {
 public:
  enum class Result {
    kNeedsMore,  // all that is certain was handed on
    kNoCall,     // what stands next is no call: the end, or what only looked like one
  };

  // `takes_names`: calls may begin with their names.
  explicit JsonCallReader(bool takes_names = false) : takes_names_(takes_names) {}

  // Reads from the front of `text`, which loses what was read, and appends to `pieces`. After
  // kNeedsMore more is to be appended to the text; with `at_end` that is never the result.
  Result Read(std::string& text, bool at_end, std::vector<ToolCallPiece>& pieces);

  // What was read since the last call, or since the beginning: brackets and what parts calls.
  const std::string& unclaimed() const { return unclaimed_; }
  bool has_calls() const { return has_calls_; }

 private:
  enum class State {
    kBetween,    // before a call, between two, or behind the last one
    kHead,       // in what comes before the arguments
    kWhole,      // in a call that is written otherwise, and is taken once it is there
    kArguments,  // in the arguments
    kTail,       // behind them, before the call's own bracket
  };

  // Each is true where another state goes on with the text, and sets the result where none does.
  bool ReadBetween(std::string& text, std::vector<ToolCallPiece>& pieces, Result* result);
  bool ReadHead(std::string& text, bool at_end, std::vector<ToolCallPiece>& pieces, Result* result);
  bool ReadWhole(std::string& text, bool at_end, std::vector<ToolCallPiece>& pieces,
                 Result* result);
  bool ReadRest(std::string& text, bool at_end, std::vector<ToolCallPiece>& pieces, Result* result);
  void Begin(ToolCallPiece call, std::vector<ToolCallPiece>& pieces);
  // Moves what belongs to the open brackets from `text` to `read`; whether they were closed, or
  // closing is out of sight: '<' outside of strings, which begins a tag.
  bool ReadBrackets(std::string& text, std::string* read);

  bool takes_names_;
  bool is_named_ = false;  // the call has begun with its name, and ends with its arguments
  State state_ = State::kBetween;
  std::string unclaimed_;
  bool has_calls_ = false;
  // Of ReadBrackets(): how many are open, and whether a string or an escape in it is.
  int depth_ = 0;
  bool in_string_ = false;
  bool escaped_ = false;
};

}  // namespace sluice::gateway
