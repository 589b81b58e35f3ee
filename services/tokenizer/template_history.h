// Requirements of a chat template for earlier messages, detected from the template itself.
// Thread-safe once made.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "services/tokenizer/jinja/template.h"

namespace sluice {

class TemplateHistory {
 public:
  // `source` is the text that `compiled` was made of.
  TemplateHistory(std::string_view source, const jinja::Template& compiled);

  // Rewrites `messages`, a JSON array, to what the template reads:
  //   - `thinking` where it reads that name instead of `reasoning_content`
  //   - `arguments` of calls as JSON text where it can't write an object (DeepSeek)
  //   - ids of calls as functions.NAME:N, N counting all calls so far (Kimi), in `tool_call_id` too
  //   - reasoning, and a text before calls, as `tool_plan` of a turn with calls (Command)
  //   - an empty text as a list of one, where it looks into the first part of any (Command)
  //   - results of calls as `tool_responses` of the turn, each a name and a response, where it has no
  //     place for them elsewhere (Gemma 4)
  //   - turns with several calls as turns with one each, which its result follows, and their text as
  //     part of the reasoning (gpt-oss)
  // Messages of any other form are left as they are.
  void Adapt(nlohmann::ordered_json& messages) const;

 private:
  bool reads_thinking_ = false;
  bool reads_tool_plan_ = false;
  bool reads_first_part_ = false;
  bool reads_tool_responses_ = false;
  bool wants_argument_text_ = false;
  bool numbers_calls_ = false;
  bool takes_one_call_ = false;
};

}  // namespace sluice
