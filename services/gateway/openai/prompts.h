// Texts as completions, scores and embeddings have them.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "services/gateway/json/object_reader.h"

namespace sluice::gateway::openai {

// Text, or token ids as they are.
using Prompt = std::variant<std::string, std::vector<int32_t>>;

// Texts or arrays of token ids of one call that generates or scores, at most.
constexpr size_t kMostPrompts = 128;

// What member `name` holds: a text, token ids, or an array of up to `most` texts or arrays of token ids.
// Faults, such as that there is none, go to the reader.
std::vector<Prompt> ReadPrompts(ObjectReader& reader, const char* name, size_t most);

// Sets `text` or `token_ids` of a message that has both.
template <class Message>
void SetInput(const Prompt& prompt, Message& message) {
  if (const auto* text = std::get_if<std::string>(&prompt)) {
    message.set_text(*text);
  } else {
    const auto& ids = std::get<std::vector<int32_t>>(prompt);
    message.mutable_token_ids()->mutable_token_ids()->Assign(ids.begin(), ids.end());
  }
}

}  // namespace sluice::gateway::openai
