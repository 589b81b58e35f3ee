#include "orchestrator/api/score_call.h"

#include <memory>
#include <utility>
#include <vector>

#include "orchestrator/api/adapter_check.h"
#include "orchestrator/api/embed_check.h"
#include "orchestrator/api/request_check.h"
#include "orchestrator/api/score_batch.h"

namespace sluice {
namespace {

std::vector<v1::ScoreInput> InputsOf(const v1::ScoreRequest& request) {
  if (!request.inputs().empty()) return {request.inputs().begin(), request.inputs().end()};
  std::vector<v1::ScoreInput> inputs(1);
  if (request.has_text()) {
    inputs[0].set_text(request.text());
  } else {
    *inputs[0].mutable_token_ids() = request.token_ids();
  }
  if (request.has_source_text()) inputs[0].set_source_text(request.source_text());
  if (request.has_source_token_ids()) {
    *inputs[0].mutable_source_token_ids() = request.source_token_ids();
  }
  return inputs;
}

v1::ScoreResponse ResponseOf(std::vector<v1::ScoredText> texts, bool several) {
  v1::ScoreResponse response;
  if (several) {
    for (v1::ScoredText& text : texts) *response.add_scores() = std::move(text);
    return response;
  }
  v1::ScoredText& text = texts.front();
  response.mutable_token_ids()->Swap(text.mutable_token_ids());
  response.mutable_logprobs()->Swap(text.mutable_logprobs());
  response.set_mean_nll(text.mean_nll());
  response.set_perplexity(text.perplexity());
  response.set_sum_logprob(text.sum_logprob());
  return response;
}

}  // namespace

void StartScore(const TextCallContext& context, const absl::StatusOr<v1::ScoreRequest>& request,
                SteadyTime deadline, UnaryCall* call) {
  const auto answer =
      std::make_shared<UnaryAnswer<v1::ScoreResponse>>(call, context.trace, context.tracer);
  absl::Status status = request.ok() ? CheckScore(*request, context.model) : request.status();
  if (status.ok()) status = CheckGenerates(context.model);
  if (status.ok()) status = context.tenants.CheckPriority(context.tenant, request->priority());
  if (!status.ok()) return answer->Give(status);
  const absl::StatusOr<std::string> adapter =
      AdapterOf(context.adapters, context.engine, request->adapter());
  if (!adapter.ok()) return answer->Give(adapter.status());
  const bool several = !request->inputs().empty();
  const auto batch = std::make_shared<ScoreBatch>(
      context,
      TextBatch::Options{.name = "score",
                         .priority = request->priority(),
                         .adapter = *adapter,
                         .deadline = deadline},
      request->top(), InputsOf(*request),
      [answer, several](absl::StatusOr<std::vector<v1::ScoredText>> texts) {
        if (!texts.ok()) return answer->Give(texts.status());
        answer->Give(ResponseOf(*std::move(texts), several));
      });
  StartBatch(batch, call, answer);
}

}  // namespace sluice
