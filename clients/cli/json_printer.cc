#include <string>
#include <utility>

#include "clients/cli/event_printer.h"
#include "clients/cli/json.h"
#include "clients/cli/text_input.h"

namespace sluice {
namespace {

std::string NameOf(v1::FinishReason reason) {
  switch (reason) {
    case v1::FINISH_REASON_STOP_TOKEN:
      return "stop_token";
    case v1::FINISH_REASON_STOP_STRING:
      return "stop_string";
    case v1::FINISH_REASON_LENGTH:
      return "length";
    default:
      return "unspecified";
  }
}

}  // namespace

std::string LimitName(v1::LengthLimit limit) {
  switch (limit) {
    case v1::LENGTH_LIMIT_MAX_TOKENS:
      return "max_tokens";
    case v1::LENGTH_LIMIT_CONTEXT:
      return "context";
    case v1::LENGTH_LIMIT_KV_CACHE:
      return "kv_cache";
    case v1::LENGTH_LIMIT_MODEL_DEFAULT:
      return "model_default";
    default:
      return "";
  }
}

namespace {

Json IdsOf(const google::protobuf::RepeatedField<int32_t>& token_ids) {
  Json ids = Json::array();
  for (const int32_t id : token_ids) ids.push_back(id);
  return ids;
}

using TokenTexts = std::vector<std::string>;

// Its text, and its bytes where they are not UTF-8.
void AddToken(int32_t id, const TokenTexts& texts, Json& into) {
  if (id < 0 || static_cast<size_t>(id) >= texts.size()) return;
  into["token"] = texts[id];
  if (CheckUtf8(texts[id]).ok()) return;
  Json& bytes = into["bytes"] = Json::array();
  for (const char c : texts[id]) bytes.push_back(static_cast<unsigned char>(c));
}

Json TopOf(const v1::PositionLogprobs& position, const TokenTexts& texts) {
  Json top = JsonOf(position.top());
  for (Json& token : top) AddToken(token["token_id"].get<int32_t>(), texts, token);
  return top;
}

// Of the last of `token_ids`: the first token of a prompt has none.
Json LogprobsOf(const google::protobuf::RepeatedPtrField<v1::PositionLogprobs>& logprobs,
                const google::protobuf::RepeatedField<int32_t>& token_ids,
                const TokenTexts& texts) {
  Json positions = Json::array();
  int index = token_ids.size() - logprobs.size();
  for (const v1::PositionLogprobs& position : logprobs) {
    Json object = {{"logprob", JsonOf(position.logprob())}};
    if (index >= 0) AddToken(token_ids[index], texts, object);
    object["top"] = TopOf(position, texts);
    positions.push_back(std::move(object));
    ++index;
  }
  return positions;
}

// What the first sequence ended with speaks for the call; the list is there where there are more.
void AddReasons(const v1::Finished& finished, Json* event) {
  if (finished.sequences().empty()) return;
  const v1::FinishedSequence& first = finished.sequences(0);
  (*event)["finish_reason"] = NameOf(first.reason());
  if (!first.stop_string().empty()) (*event)["stop_string"] = first.stop_string();
  if (first.has_stop_token_id()) (*event)["stop_token_id"] = first.stop_token_id();
  const std::string limit = LimitName(first.length_limit());
  if (!limit.empty()) (*event)["length_limit"] = limit;
  if (finished.sequences_size() == 1) return;
  Json reasons = Json::array();
  for (const v1::FinishedSequence& sequence : finished.sequences()) {
    reasons.push_back(NameOf(sequence.reason()));
  }
  (*event)["finish_reasons"] = reasons;
}

// Of beams.
void AddScores(const v1::Finished& finished, Json* event) {
  if (finished.sequences().empty() || !finished.sequences(0).has_score()) return;
  Json scores = Json::array(), sums = Json::array();
  for (const v1::FinishedSequence& sequence : finished.sequences()) {
    scores.push_back(sequence.score());
    sums.push_back(sequence.sum_logprob());
  }
  (*event)["scores"] = scores;
  (*event)["sum_logprobs"] = sums;
}

class JsonPrinter : public EventPrinter {
 public:
  JsonPrinter(std::ostream& out, JsonOptions options) : out_(out), options_(std::move(options)) {}

  void Print(const v1::Chunk& chunk) override {
    Json event = {{"sequence", chunk.sequence()},
                  {"text", chunk.text()},
                  {"token_ids", IdsOf(chunk.token_ids())}};
    if (options_.logprobs) {
      event["logprobs"] = LogprobsOf(chunk.logprobs(), chunk.token_ids(), options_.token_texts);
    }
    if (!chunk.prompt_token_ids().empty()) {
      event["prompt_token_ids"] = IdsOf(chunk.prompt_token_ids());
      event["prompt_logprobs"] =
          LogprobsOf(chunk.prompt_logprobs(), chunk.prompt_token_ids(), options_.token_texts);
    }
    out_ << DumpLine(event) << std::endl;
  }

  void Finish(const v1::Finished& finished) override {
    Json event;
    event["finished"] = true;
    AddReasons(finished, &event);
    AddScores(finished, &event);
    const v1::Usage& usage = finished.usage();
    event["usage"] = {{"prompt_tokens", usage.num_prompt_tokens()},
                      {"generated_tokens", usage.num_generated_tokens()},
                      {"shared_prompt_tokens", usage.num_shared_prompt_tokens()},
                      {"cached_prompt_tokens", usage.num_cached_prompt_tokens()},
                      {"drafted_tokens", usage.num_drafted_tokens()},
                      {"accepted_draft_tokens", usage.num_accepted_draft_tokens()}};
    event["seed"] = finished.seed();
    event["request_id"] = finished.request_id();
    out_ << DumpLine(event) << std::endl;
  }

 private:
  std::ostream& out_;
  const JsonOptions options_;
};

}  // namespace

std::unique_ptr<EventPrinter> MakeJsonPrinter(std::ostream& out, JsonOptions options) {
  return std::make_unique<JsonPrinter>(out, std::move(options));
}

}  // namespace sluice
