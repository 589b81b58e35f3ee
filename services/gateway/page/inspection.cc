#include "services/gateway/page/inspection.h"

#include <cmath>
#include <string>
#include <utility>

#include "services/common/utf8_text.h"
#include "services/gateway/json/object_reader.h"
#include "services/gateway/openai/error.h"

namespace sluice::gateway {
namespace {

using nlohmann::json;

constexpr int kMostLensTokens = 20;

absl::StatusOr<v1::InspectRequest> ReadRequest(const json& body) {
  ObjectReader reader(body);
  v1::InspectRequest request;
  request.set_text(reader.String("text").value_or(""));
  request.set_weights(reader.Bool("weights").value_or(false));
  for (const int32_t layer : reader.Integers("layers").value_or(std::vector<int32_t>())) {
    request.add_layers(layer);
  }
  request.set_rollout(reader.Bool("rollout").value_or(false));
  request.set_lens(static_cast<int32_t>(reader.Integer("lens", 0, kMostLensTokens).value_or(0)));
  if (absl::Status status = reader.Finish(); !status.ok()) return status;
  return request;
}

// In ten-thousandths, which take half the room of shares.
template <class Numbers>
json Shares(const Numbers& numbers) {
  json shares = json::array();
  for (const float number : numbers) shares.push_back(std::lround(number * 10'000));
  return shares;
}

json LensJson(const v1::LensLayer& layer, const std::function<std::string(int32_t)>& text_of) {
  json positions = json::array();
  for (const v1::LensPosition& position : layer.positions()) {
    json top = json::array();
    for (const v1::TokenLogprob& token : position.top()) {
      top.push_back({text_of(token.token_id()), std::exp(double{token.logprob()})});
    }
    json next = nullptr;
    if (position.has_next_logprob()) next = std::exp(double{position.next_logprob()});
    positions.push_back({{"top", std::move(top)}, {"next", std::move(next)}});
  }
  return {{"layer", layer.layer()}, {"positions", std::move(positions)}};
}

json InspectionJson(const v1::InspectResponse& seen, const TokenTexts& texts) {
  const auto text_of = [&texts](int32_t id) {
    return id >= 0 && id < std::ssize(texts) ? CleanUtf8(texts[id]) : std::to_string(id);
  };
  json body = {{"tokens", json::array()},       {"num_layers", seen.num_layers()},
               {"num_heads", seen.num_heads()}, {"attention_layers", seen.attention_layers()},
               {"maps", json::array()},         {"rollout", Shares(seen.rollout())},
               {"lens", json::array()}};
  for (const int32_t id : seen.token_ids()) body["tokens"].push_back(text_of(id));
  for (const v1::AttentionMap& map : seen.maps()) {
    body["maps"].push_back(
        {{"layer", map.layer()}, {"head", map.head()}, {"weights", Shares(map.weights())}});
  }
  for (const v1::LensLayer& layer : seen.lens()) body["lens"].push_back(LensJson(layer, text_of));
  return body;
}

}  // namespace

void ServeInspection(const ApiContext& context, std::shared_ptr<http::Exchange> exchange) {
  const auto call = std::make_shared<ApiCall>(context, std::move(exchange));
  const absl::StatusOr<json> body = call->Body();
  absl::StatusOr<v1::InspectRequest> request =
      body.ok() ? ReadRequest(*body) : absl::StatusOr<v1::InspectRequest>(body.status());
  if (!request.ok()) return call->Respond(openai::ErrorResponse(request.status()));
  context.backend.GetModel(call->caller(), [&context, call, request = *std::move(request)](
                                               const absl::StatusOr<v1::GetModelResponse>& model) {
    if (!model.ok()) return call->Respond(openai::ErrorResponse(model.status()));
    context.backend.Inspect(
        call->caller(), request,
        [&context, call, name = model->name()](absl::StatusOr<v1::InspectResponse> seen) {
          if (!seen.ok()) return call->Respond(openai::ErrorResponse(seen.status()));
          context.vocabulary.Get(
              call->caller(), name,
              [call, seen = *std::move(seen)](
                  const absl::StatusOr<std::shared_ptr<const TokenTexts>>& texts) {
                static const auto* const kNone = new TokenTexts;
                call->Respond(200, InspectionJson(seen, texts.ok() ? **texts : *kNone));
              });
        });
  });
}

}  // namespace sluice::gateway
