#include "services/gateway/openai/response_call.h"

#include <utility>

#include "services/gateway/api/sent_names.h"
#include "services/gateway/json/json_text.h"
#include "services/gateway/openai/error.h"

namespace sluice::gateway::openai {
namespace {

using nlohmann::json;

bool IsCutShort(const v1::Finished& finished) {
  return !finished.sequences().empty() &&
         finished.sequences(0).reason() == v1::FINISH_REASON_LENGTH;
}

json UsageJson(const v1::Usage& usage, int64_t num_reasoning_tokens) {
  return {{"input_tokens", usage.num_prompt_tokens()},
          {"input_tokens_details", {{"cached_tokens", usage.num_cached_prompt_tokens()}}},
          {"output_tokens", usage.num_generated_tokens()},
          {"output_tokens_details", {{"reasoning_tokens", num_reasoning_tokens}}},
          {"total_tokens", usage.num_prompt_tokens() + usage.num_generated_tokens()}};
}

}  // namespace

ResponseCall::ResponseCall(const ApiContext& context, std::shared_ptr<http::Exchange> exchange)
    : OpenAiCall(context, std::move(exchange), "resp_") {}

absl::StatusOr<GenerationCall::Needs> ResponseCall::Read(const json& body) {
  absl::StatusOr<ResponseRequest> request = ReadResponseRequest(body, call().request().body);
  if (!request.ok()) return request.status();
  request_ = *std::move(request);
  return Needs{
      .model = request_.model, .chat = &request_.generate.chat(), .tools = &request_.tools};
}

void ResponseCall::Prepare() {
  splitter_ = std::make_unique<OutputSplitter>(NewSplitter());
  ResponseItems::Send send;
  if (request_.stream) {
    // Belongs to this call, so it may know it.
    send = [this](const char* type, json fields) { SendEvent(type, std::move(fields)); };
  }
  items_ = std::make_unique<ResponseItems>(std::move(send));
  Generate({request_.generate});
}

json ResponseCall::Response(const char* status) const {
  json response = request_.echoed;
  response.update({{"id", id()},
                   {"object", "response"},
                   {"created_at", created()},
                   {"status", status},
                   {"background", false},
                   {"error", nullptr},
                   {"incomplete_details", nullptr},
                   {"model", model().name()},
                   {"output", json::array()},
                   {"previous_response_id", nullptr},
                   {"store", false},
                   {"truncation", "disabled"},
                   {"usage", nullptr},
                   {"user", nullptr}});
  return response;
}

void ResponseCall::SendEvent(const char* type, json fields) {
  fields["type"] = type;
  fields["sequence_number"] = num_events_++;
  call().SendEvent(type, ToJson(fields));
}

void ResponseCall::BeginResponse() {
  if (call().has_sent_events()) return;
  SendEvent("response.created", {{"response", Response("in_progress")}});
  SendEvent("response.in_progress", {{"response", Response("in_progress")}});
}

void ResponseCall::Take(const OutputPiece& piece) {
  if (request_.stream) BeginResponse();
  if (!piece.reasoning.empty()) items_->AddThought(piece.reasoning);
  if (!piece.text.empty()) items_->AddText(piece.text);
  for (const ToolCallPiece& part : piece.calls) {
    if (!part.name.empty()) ++num_calls_;
    if (num_calls_ == 1 || request_.tools.parallel) items_->AddCall(part);
  }
}

void ResponseCall::OnChunk(int /*prompt*/, const v1::Chunk& chunk) {
  Take(splitter_->Add(chunk.text(), chunk.token_ids_size()));
}

void ResponseCall::OnFinished(const std::vector<v1::Finished>& all) {
  const v1::Finished& finished = all.front();
  const bool cut_short = IsCutShort(finished);
  const char* const status = cut_short ? "incomplete" : "completed";
  Take(splitter_->Finish());
  json response = Response(status);
  response["output"] = items_->Finish(status);
  response["usage"] = UsageJson(finished.usage(), splitter_->num_thought_tokens());
  if (cut_short) response["incomplete_details"] = {{"reason", "max_output_tokens"}};
  if (!request_.stream) return call().Respond(200, response);
  SendEvent(cut_short ? "response.incomplete" : "response.completed",
            {{"response", std::move(response)}});
  call().EndEvents();
}

void ResponseCall::Fail(const absl::Status& failure) {
  const absl::Status status =
      AsSent(failure, {.prompt = "input",
                       .max_tokens = "max_output_tokens",
                       .constraint = request_.generate.has_constraint() ? "text.format" : "tools",
                       .service_tier = request_.service_tier});
  if (!call().has_sent_events()) return call().Respond(ErrorResponse(status));
  const json error = ErrorBody(status)["error"];
  SendEvent("error",
            {{"code", error["code"]}, {"message", error["message"]}, {"param", error["param"]}});
  call().EndEvents();
}

}  // namespace sluice::gateway::openai
