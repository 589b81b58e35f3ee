#include "services/gateway/openai/logprobs.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"

namespace sluice::gateway::openai {
namespace {

using nlohmann::json;

// JSON has no infinity; this is what OpenAI sends for a token that can't be.
constexpr double kImpossible = -9999.0;

json Finite(float logprob) { return logprob >= kImpossible ? json(logprob) : json(kImpossible); }

const std::string& TextOf(int32_t token_id, const TokenTexts& texts) {
  static const std::string* const kNone = new std::string;
  const auto index = static_cast<size_t>(token_id);
  return index < texts.size() ? texts[index] : *kNone;
}

json ChatToken(int32_t token_id, float logprob, const TokenTexts& texts) {
  const std::string& text = TextOf(token_id, texts);
  json bytes = json::array();
  for (const char byte : text) bytes.push_back(static_cast<uint8_t>(byte));
  return {{"token", text}, {"logprob", Finite(logprob)}, {"bytes", std::move(bytes)}};
}

size_t NumCharacters(absl::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char byte) { return (byte & 0xc0) != 0x80; }));
}

}  // namespace

json ChatLogprobs(const v1::Chunk& chunk, int count, const TokenTexts& texts) {
  json content = json::array();
  for (int i = 0; i < count; ++i) {
    const v1::PositionLogprobs& position = chunk.logprobs(i);
    json token = ChatToken(chunk.token_ids(i), position.logprob(), texts);
    json top = json::array();
    for (const v1::TokenLogprob& other : position.top()) {
      top.push_back(ChatToken(other.token_id(), other.logprob(), texts));
    }
    token["top_logprobs"] = std::move(top);
    content.push_back(std::move(token));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

void AddPromptLogprobs(const v1::Chunk& chunk, const TokenTexts& texts, json& into) {
  if (into.is_null()) into = json::array({nullptr});
  for (int i = 0; i < chunk.prompt_token_ids_size(); ++i) {
    const v1::PositionLogprobs& position = chunk.prompt_logprobs(i);
    json tokens = json::object();
    const auto add = [&](int32_t id, float logprob, json rank) {
      tokens.emplace(std::to_string(id), json{{"logprob", Finite(logprob)},
                                              {"rank", std::move(rank)},
                                              {"decoded_token", TextOf(id, texts)}});
    };
    for (int rank = 0; rank < position.top_size(); ++rank) {
      add(position.top(rank).token_id(), position.top(rank).logprob(), rank + 1);
    }
    add(chunk.prompt_token_ids(i), position.logprob(), nullptr);
    into.push_back(std::move(tokens));
  }
}

void CompletionLogprobs::AdvanceOver(absl::string_view text) { offset_ += NumCharacters(text); }

void CompletionLogprobs::AddToken(int32_t token_id, absl::string_view shown) {
  tokens_.push_back(TextOf(token_id, *texts_));
  offsets_.push_back(offset_);
  AdvanceOver(shown);
}

void CompletionLogprobs::AddLogprobs(const v1::PositionLogprobs& logprobs) {
  logprobs_.push_back(Finite(logprobs.logprob()));
  json top = json::object();
  // The most probable of two tokens with the same text is the one that counts.
  for (const v1::TokenLogprob& other : logprobs.top()) {
    top.emplace(TextOf(other.token_id(), *texts_), Finite(other.logprob()));
  }
  top_.push_back(std::move(top));
}

void CompletionLogprobs::AddPromptToken(int32_t token_id, const v1::PositionLogprobs* logprobs,
                                        absl::string_view* rest) {
  absl::string_view shown = TextOf(token_id, *texts_);
  if (rest != nullptr) {
    if (!absl::StartsWith(*rest, shown)) absl::ConsumePrefix(&shown, " ");
    if (!absl::ConsumePrefix(rest, shown)) shown = "";
  }
  AddToken(token_id, shown);
  if (logprobs != nullptr) return AddLogprobs(*logprobs);
  logprobs_.push_back(nullptr);
  top_.push_back(nullptr);
}

void CompletionLogprobs::Add(int32_t token_id, const v1::PositionLogprobs& logprobs) {
  AddToken(token_id, TextOf(token_id, *texts_));
  AddLogprobs(logprobs);
}

void CompletionLogprobs::Add(const v1::Chunk& chunk) {
  for (int i = 0; i < chunk.logprobs_size(); ++i) Add(chunk.token_ids(i), chunk.logprobs(i));
}

json CompletionLogprobs::Take() {
  return {{"tokens", std::exchange(tokens_, json::array())},
          {"token_logprobs", std::exchange(logprobs_, json::array())},
          {"top_logprobs", std::exchange(top_, json::array())},
          {"text_offset", std::exchange(offsets_, json::array())}};
}

}  // namespace sluice::gateway::openai
