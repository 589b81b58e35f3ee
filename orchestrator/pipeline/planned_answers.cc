#include "orchestrator/pipeline/planned_answers.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "orchestrator/pipeline/step_messages.h"

namespace sluice {
namespace {

// What rounding may add to the logarithm of a probability of 1.
constexpr float kMaxLogprob = 0.01f;

bool IsLogprob(float logprob) { return !std::isnan(logprob) && logprob <= kMaxLogprob; }

void Fail(RowResult& row, const char* why) {
  row = RowResult();
  row.error = why;
}

bool HasWrongLogprob(const RowResult& row) {
  if (!IsLogprob(row.logprob)) return true;
  for (const RankedToken& ranked : row.top) {
    if (!IsLogprob(ranked.logprob) || std::isnan(ranked.perturbed)) return true;
  }
  return false;
}

// Falling; of alternatives that are alike, each is another token.
bool IsBehind(const RankedToken& before, const RankedToken& next, bool perturbed) {
  const double first = perturbed ? before.perturbed : before.logprob;
  const double second = perturbed ? next.perturbed : next.logprob;
  return second < first || (second == first && next.token != before.token);
}

}  // namespace

void PlannedAnswers::Add(StepId step, absl::Span<const RowRequest> rows) {
  PlannedStep& planned = steps_.emplace_back();
  planned.id = step;
  planned.rows = std::exchange(spare_, {});
  planned.rows.clear();
  planned.rows.reserve(rows.size());
  for (const RowRequest& row : rows) {
    PlannedRow& kept = planned.rows.emplace_back();
    const auto* score = std::get_if<ScoreTarget>(&row.task);
    kept.scores = score != nullptr;
    if (score != nullptr) kept.score_target = score->token;
    if (const auto* pool = std::get_if<PoolTarget>(&row.task)) {
      kept.pools = true;
      kept.ends_text = pool->is_last;
    }
    kept.perturbed = row.perturbed;
    kept.num_logprobs = row.num_logprobs;
    kept.max_forced = row.max_forced;
  }
}

absl::StatusOr<StepExecuted> PlannedAnswers::Take(const v1::StageExecuted& executed) {
  const StepId step = executed.step_id();
  if (steps_.empty() || steps_.front().id != step) {
    return absl::InternalError(
        absl::StrCat("it answered step ", step, ", which is not the next one to be answered"));
  }
  PlannedStep planned = std::move(steps_.front());
  steps_.pop_front();
  if (static_cast<size_t>(executed.sampler().rows_size()) != planned.rows.size()) {
    return absl::InternalError(absl::StrCat("it answered step ", step, " with ",
                                            executed.sampler().rows_size(),
                                            " rows; it was asked for ", planned.rows.size()));
  }
  absl::StatusOr<std::vector<RowResult>> rows = ResultsFrom(executed);
  if (!rows.ok()) return rows.status();
  for (size_t i = 0; i < planned.rows.size(); ++i) {
    const absl::Status status = CheckRow(planned.rows[i], (*rows)[i]);
    if (status.ok()) continue;
    return absl::InternalError(
        absl::StrCat("it answered row ", i, " of step ", step, " with ", status.message()));
  }
  spare_ = std::move(planned.rows);
  return StepExecuted{step, *std::move(rows)};
}

absl::Status PlannedAnswers::CheckRow(const PlannedRow& planned, RowResult& row) const {
  if (!row.error.empty()) {
    row.token = 0;  // means nothing
    row.deferred = false;
    return absl::OkStatus();
  }
  if (row.deferred) {
    if (planned.scores || planned.pools) {
      return absl::InternalError("no token yet, though none is to be chosen");
    }
    RowResult deferred;  // the rest means nothing
    deferred.deferred = true;
    deferred.work = row.work;
    row = std::move(deferred);
    return absl::OkStatus();
  }
  if (planned.ends_text != !row.embedding.empty()) {
    return absl::InternalError(absl::StrCat("an embedding of ", row.embedding.size(), " numbers"));
  }
  if (!std::all_of(row.embedding.begin(), row.embedding.end(),
                   [](float number) { return std::isfinite(number); })) {
    Fail(row, "the sampler's embedding has numbers that are not finite");
    return absl::OkStatus();
  }
  if (absl::Status status = CheckToken(row.token); !status.ok()) return status;
  if (planned.scores && row.token != planned.score_target) {
    return absl::InternalError(
        absl::StrCat("token ", row.token, " instead of ", planned.score_target));
  }
  for (const std::vector<TokenId>* following : {&row.forced, &row.likely}) {
    if (std::ssize(*following) > planned.max_forced) {
      return absl::InternalError(
          absl::StrCat(following->size(), " tokens that follow; accepted: ", planned.max_forced));
    }
    for (const TokenId token : *following) {
      if (absl::Status status = CheckToken(token); !status.ok()) return status;
    }
  }
  if (absl::Status status = CheckTop(planned, row); !status.ok()) return status;
  if (HasWrongLogprob(row)) Fail(row, "the sampler's log-probabilities are not those of tokens");
  return absl::OkStatus();
}

absl::Status PlannedAnswers::CheckTop(const PlannedRow& planned, const RowResult& row) const {
  if (std::ssize(row.top) > planned.num_logprobs) {
    return absl::InternalError(
        absl::StrCat(row.top.size(), " alternatives; it was asked for ", planned.num_logprobs));
  }
  for (size_t i = 0; i < row.top.size(); ++i) {
    if (absl::Status status = CheckToken(row.top[i].token); !status.ok()) return status;
    if (i == 0 || IsBehind(row.top[i - 1], row.top[i], planned.perturbed)) continue;
    if (HasWrongLogprob(row)) return absl::OkStatus();  // not a number: the row fails
    return absl::InternalError(absl::StrCat("alternatives out of order at ", i));
  }
  return absl::OkStatus();
}

absl::Status PlannedAnswers::CheckToken(TokenId token) const {
  if (token >= 0 && token < vocabulary_size_) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("token ", token, "; the vocabulary has ", vocabulary_size_));
}

}  // namespace sluice
