#include "services/gateway/openai/response_call.h"

#include <utility>

#include "absl/time/clock.h"
#include "services/gateway/backend/random.h"
#include "services/gateway/json/json_text.h"
#include "services/gateway/openai/error.h"

namespace sluice::gateway::openai {
namespace {

using nlohmann::json;

bool IsCutShort(const v1::Finished& finished) {
  return !finished.sequences().empty() &&
         finished.sequences(0).reason() == v1::FINISH_REASON_LENGTH;
}

json UsageJson(const v1::Usage& usage) {
  return {{"input_tokens", usage.num_prompt_tokens()},
          {"input_tokens_details", {{"cached_tokens", usage.num_cached_prompt_tokens()}}},
          {"output_tokens", usage.num_generated_tokens()},
          {"output_tokens_details", {{"reasoning_tokens", 0}}},
          {"total_tokens", usage.num_prompt_tokens() + usage.num_generated_tokens()}};
}

}  // namespace

ResponseCall::ResponseCall(const ApiContext& context, std::shared_ptr<http::Exchange> exchange)
    : GenerationCall(context, std::move(exchange)),
      id_(RandomId("resp_")),
      item_id_(RandomId("msg_")),
      created_(absl::ToUnixSeconds(absl::Now())) {}

absl::StatusOr<GenerationCall::Needs> ResponseCall::Read(const json& body) {
  absl::StatusOr<ResponseRequest> request = ReadResponseRequest(body, call().request().body);
  if (!request.ok()) return request.status();
  request_ = *std::move(request);
  return Needs{.model = request_.model};
}

absl::Status ResponseCall::UnknownModel(const std::string& name) const {
  return ModelNotFound(name);
}

void ResponseCall::Prepare() { Generate({request_.generate}); }

json ResponseCall::Response(const char* status) const {
  json response = request_.echoed;
  response.update({{"id", id_},
                   {"object", "response"},
                   {"created_at", created_},
                   {"status", status},
                   {"background", false},
                   {"error", nullptr},
                   {"incomplete_details", nullptr},
                   {"model", model().name()},
                   {"output", json::array()},
                   {"previous_response_id", nullptr},
                   {"reasoning", {{"effort", nullptr}, {"summary", nullptr}}},
                   {"store", false},
                   {"truncation", "disabled"},
                   {"usage", nullptr},
                   {"user", nullptr}});
  return response;
}

json ResponseCall::TextPart(const std::string& text) const {
  return {{"type", "output_text"},
          {"text", text},
          {"annotations", json::array()},
          {"logprobs", json::array()}};
}

json ResponseCall::Item(const char* status) const {
  return {{"type", "message"},
          {"id", item_id_},
          {"status", status},
          {"role", "assistant"},
          {"content", json::array()}};
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
  SendEvent("response.output_item.added", {{"output_index", 0}, {"item", Item("in_progress")}});
  SendEvent(
      "response.content_part.added",
      {{"item_id", item_id_}, {"output_index", 0}, {"content_index", 0}, {"part", TextPart("")}});
}

void ResponseCall::OnChunk(int /*prompt*/, const v1::Chunk& chunk) {
  const std::string& text = chunk.text();
  text_ += text;
  if (!request_.stream) return;
  BeginResponse();
  if (text.empty()) return;
  SendEvent("response.output_text.delta", {{"item_id", item_id_},
                                           {"output_index", 0},
                                           {"content_index", 0},
                                           {"delta", text},
                                           {"logprobs", json::array()}});
}

void ResponseCall::OnFinished(const std::vector<v1::Finished>& all) {
  const v1::Finished& finished = all.front();
  const bool cut_short = IsCutShort(finished);
  const char* const status = cut_short ? "incomplete" : "completed";
  json item = Item(status);
  item["content"].push_back(TextPart(text_));
  json response = Response(status);
  response["output"].push_back(item);
  response["usage"] = UsageJson(finished.usage());
  if (cut_short) response["incomplete_details"] = {{"reason", "max_output_tokens"}};
  if (!request_.stream) return call().Respond(200, response);
  BeginResponse();
  const json place = {{"item_id", item_id_}, {"output_index", 0}, {"content_index", 0}};
  json text_done = place;
  text_done.update({{"text", text_}, {"logprobs", json::array()}});
  SendEvent("response.output_text.done", std::move(text_done));
  json part_done = place;
  part_done["part"] = TextPart(text_);
  SendEvent("response.content_part.done", std::move(part_done));
  SendEvent("response.output_item.done", {{"output_index", 0}, {"item", std::move(item)}});
  SendEvent(cut_short ? "response.incomplete" : "response.completed",
            {{"response", std::move(response)}});
  call().EndEvents();
}

void ResponseCall::Fail(const absl::Status& status) {
  if (!call().has_sent_events()) return call().Respond(ErrorResponse(status));
  const json error = ErrorBody(status)["error"];
  SendEvent("error",
            {{"code", error["code"]}, {"message", error["message"]}, {"param", error["param"]}});
  call().EndEvents();
}

}  // namespace sluice::gateway::openai
