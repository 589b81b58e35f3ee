#include "services/gateway/openai/chat_call.h"

#include <algorithm>
#include <utility>

#include "services/gateway/api/sent_names.h"
#include "services/gateway/backend/random_id.h"
#include "services/gateway/openai/error.h"
#include "services/gateway/openai/logprobs.h"
#include "services/gateway/openai/usage.h"
#include "services/messages/num_returned.h"

namespace sluice::gateway::openai {
namespace {

using nlohmann::json;

// Appends the positions of `more` to those of `all`.
void AppendLogprobs(json& all, json more) {
  if (all.is_null()) {
    all = std::move(more);
    return;
  }
  for (json& token : more["content"]) all["content"].push_back(std::move(token));
}

// Calls as a whole answer has them, from the deltas of a streamed one.
void AddTo(json& calls, json delta) {
  delta.erase("index");
  if (delta.contains("id")) {
    calls.push_back(std::move(delta));
  } else {
    calls.back()["function"]["arguments"].get_ref<std::string&>() +=
        delta["function"]["arguments"].get_ref<const std::string&>();
  }
}

// Those that no answer has had yet, where they are asked for.
void AddTokenIds(json& token_ids, json& choice) {
  if (token_ids.is_array()) choice["token_ids"] = std::exchange(token_ids, json::array());
}

}  // namespace

ChatCall::ChatCall(const ApiContext& context, std::shared_ptr<http::Exchange> exchange)
    : ChoiceCall(context, std::move(exchange),
                 {.id_prefix = "chatcmpl-",
                  .object = "chat.completion",
                  .chunk = "chat.completion.chunk"}) {}

absl::StatusOr<GenerationCall::Needs> ChatCall::Read(const json& body) {
  absl::StatusOr<ChatRequest> request = ReadChatRequest(body, call().request().body);
  if (!request.ok()) return request.status();
  request_ = *std::move(request);
  return Needs{.model = request_.parameters.model,
               .token_texts = request_.logprobs || request_.generate.has_prompt_logprobs(),
               .bad_words = request_.parameters.bad_words,
               .chat = &request_.generate.chat(),
               .tools = &request_.tools};
}

void ChatCall::Prepare() {
  choices_.resize(NumReturned(request_.generate));
  for (Choice& choice : choices_) {
    choice.splitter = std::make_unique<OutputSplitter>(NewSplitter());
    if (request_.parameters.return_token_ids) choice.token_ids = json::array();
  }
  if (request_.parameters.return_token_ids) return TokenizeChat();
  Begin();
}

void ChatCall::TokenizeChat() {
  backend().ApplyChatTemplate(
      call().caller(), TemplateRequest(request_.generate.chat()),
      Then<v1::ApplyChatTemplateResponse>([this](const v1::ApplyChatTemplateResponse& prompt) {
        prompt_token_ids_ = prompt.token_ids();
        Begin();
      }));
}

void ChatCall::Begin() {
  if (request_.prediction.empty()) return Generate({request_.generate});
  TokenizePrediction();
}

void ChatCall::TokenizePrediction() {
  v1::TokenizeRequest request;
  request.set_text(request_.prediction);
  request.set_add_special_tokens(false);
  backend().Tokenize(call().caller(), std::move(request),
                     Then<v1::TokenizeResponse>([this](const v1::TokenizeResponse& tokens) {
                       // What lies beyond the context can't come.
                       const int most = std::min(tokens.token_ids_size(), model().max_positions());
                       request_.generate.mutable_drafts()->mutable_expected_token_ids()->Add(
                           tokens.token_ids().begin(), tokens.token_ids().begin() + most);
                       Generate({request_.generate});
                     }));
}

void ChatCall::OnChunk(int /*prompt*/, const v1::Chunk& chunk) {
  if (chunk.sequence() < 0 || static_cast<size_t>(chunk.sequence()) >= choices_.size()) return;
  if (request_.generate.has_prompt_logprobs()) {
    AddPromptLogprobs(chunk, *token_texts(), prompt_logprobs_);
  }
  Choice& choice = choices_[chunk.sequence()];
  if (choice.token_ids.is_array()) {
    for (const int32_t id : chunk.token_ids()) choice.token_ids.push_back(id);
  }
  json logprobs;
  if (const int num_shown = NumShown(chunk); request_.logprobs && num_shown > 0) {
    logprobs = ChatLogprobs(chunk, num_shown, *token_texts());
  }
  Take(chunk.sequence(), choice.splitter->Add(chunk.text(), chunk.token_ids_size()),
       std::move(logprobs));
}

int ChatCall::NumShown(const v1::Chunk& chunk) const {
  const int count = chunk.logprobs_size();
  if (count == 0) return 0;
  const auto is_last = [last = chunk.token_ids(count - 1)](const auto& ids) {
    return std::find(ids.begin(), ids.end(), last) != ids.end();
  };
  const v1::StopOptions& stop = request_.generate.stop();
  const bool ends =
      is_last(stop.stop_token_ids()) || (!stop.ignore_eos() && is_last(model().eos_token_ids()));
  return ends ? count - 1 : count;
}

int64_t ChatCall::num_reasoning_tokens() const {
  int64_t sum = 0;
  for (const Choice& choice : choices_) sum += choice.splitter->num_thought_tokens();
  return sum;
}

// What a piece has of calls, as chunks have it: each with its place among those of the choice.
json ChatCall::NewToolCalls(Choice& choice, const OutputPiece& piece) {
  json deltas = json::array();
  for (const ToolCallPiece& call : piece.calls) {
    const bool begins = !call.name.empty();
    if (begins) ++choice.num_calls;
    if (!request_.tools.parallel && choice.num_calls > 1) break;
    json delta = {{"index", choice.num_calls - 1}};
    if (begins) {
      delta["id"] = RandomId("call_");
      delta["type"] = "function";
      delta["function"]["name"] = call.name;
    }
    delta["function"]["arguments"] = call.arguments;
    if (!streams()) AddTo(choice.tool_calls, delta);
    deltas.push_back(std::move(delta));
  }
  return deltas;
}

void ChatCall::Take(int index, const OutputPiece& piece, json logprobs) {
  Choice& choice = choices_[index];
  json calls = NewToolCalls(choice, piece);
  if (!streams()) {
    choice.content += piece.text;
    choice.reasoning += piece.reasoning;
    if (!logprobs.is_null()) AppendLogprobs(choice.logprobs, std::move(logprobs));
    return;
  }
  BeginChoice(index);
  json delta = json::object();
  if (!piece.reasoning.empty()) delta["reasoning_content"] = piece.reasoning;
  if (!piece.text.empty()) delta["content"] = piece.text;
  if (!calls.empty()) delta["tool_calls"] = std::move(calls);
  if (delta.empty() && logprobs.is_null() && choice.token_ids.empty()) return;
  SendDelta(index, std::move(delta), std::move(logprobs));
}

json ChatCall::Message(Choice& choice) const {
  json message = {{"role", "assistant"}, {"content", choice.content}, {"refusal", nullptr}};
  if (!choice.reasoning.empty()) message["reasoning_content"] = choice.reasoning;
  if (choice.tool_calls.empty()) return message;
  if (choice.content.empty()) message["content"] = nullptr;
  message["tool_calls"] = std::move(choice.tool_calls);
  return message;
}

void ChatCall::OnFinished(const std::vector<v1::Finished>& all) {
  const v1::Finished& finished = all.front();
  json choices = json::array();
  for (size_t i = 0; i < choices_.size(); ++i) {
    const int index = static_cast<int>(i);
    if (index >= finished.sequences_size() && !streams()) continue;  // a search found fewer
    Take(index, choices_[i].splitter->Finish(), nullptr);
    const bool calls_tools = choices_[i].num_calls > 0;
    json object = {{"index", i}};
    if (streams()) {
      BeginChoice(index);
      object["delta"] = json::object();
      object["logprobs"] = nullptr;
    } else {
      object["message"] = Message(choices_[i]);
      object["logprobs"] = std::move(choices_[i].logprobs);
    }
    AddTokenIds(choices_[i].token_ids, object);
    if (index < finished.sequences_size()) SetFinish(object, finished.sequences(index));
    if (calls_tools && object["finish_reason"] == "stop") object["finish_reason"] = "tool_calls";
    if (streams()) {
      SendChoice(object);
    } else {
      choices.push_back(std::move(object));
    }
  }
  json further = json::object();
  if (request_.generate.has_prompt_logprobs()) further["prompt_logprobs"] = prompt_logprobs_;
  if (!streams() && prompt_token_ids_.is_array()) further["prompt_token_ids"] = prompt_token_ids_;
  End(std::move(choices), all, further);
}

void ChatCall::Fail(const absl::Status& status) {
  const std::string& constraint = request_.parameters.constraint;
  AnswerError(call(),
              AsSent(status, {.prompt = "messages",
                              .max_tokens = request_.max_tokens_name,
                              // Where nothing else says so, it is calls of tools that are kept.
                              .constraint = constraint.empty() ? "tools" : constraint,
                              .service_tier = request_.parameters.service_tier}));
}

void ChatCall::BeginChoice(int index) {
  if (std::exchange(choices_[index].begun, true)) return;
  SendDelta(index, {{"role", "assistant"}, {"content", ""}, {"refusal", nullptr}}, nullptr);
}

void ChatCall::SendDelta(int index, json delta, json logprobs) {
  json object = {{"index", index},
                 {"delta", std::move(delta)},
                 {"logprobs", std::move(logprobs)},
                 {"finish_reason", nullptr}};
  // The first chunk, which has the role, has no text that the ids could belong to.
  if (!object["delta"].contains("role")) AddTokenIds(choices_[index].token_ids, object);
  // Beside the choices, as whole answers have them.
  json further = json::object();
  if (prompt_token_ids_.is_array()) {
    further["prompt_token_ids"] = std::exchange(prompt_token_ids_, json());
  }
  SendChoice(object, further);
}

}  // namespace sluice::gateway::openai
