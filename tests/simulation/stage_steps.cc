// What a process of the simulation computes: its part of each step, by fake_model.h.
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/check.h"
#include "tests/simulation/fake_model.h"
#include "tests/simulation/stage_process.h"

namespace sluice::simulation {

void StageProcess::AddPlan(const std::shared_ptr<Session>& session, v1::StageExecute plan) {
  if (session->closed) return;
  session->plans.push_back(std::move(plan));
  ComputeNext(session);
}

void StageProcess::ComputeNext(const std::shared_ptr<Session>& session) {
  if (session->closed || session->computing || session->plans.empty()) return;
  Rows rows;
  if (kind_ == Kind::kEmbedding) {
    if (!FillIn(*session, *session->plans.front().mutable_embedding())) return;
  } else {
    auto hidden = session->hidden.extract(session->plans.front().step_id());
    if (hidden.empty()) return;
    rows = std::move(hidden.mapped());
  }
  session->computing = true;
  auto plan = std::make_shared<v1::StageExecute>(std::move(session->plans.front()));
  session->plans.pop_front();
  if (kind_ == Kind::kEmbedding && world_.on_step != nullptr) world_.on_step(plan->embedding());
  const absl::Duration time =
      world_.chance->Between(absl::Microseconds(50), absl::Microseconds(800));
  Later(time, session, [this, session, plan, rows = std::move(rows)] {
    session->computing = false;
    Compute(session, *plan, rows);
    ComputeNext(session);
  });
}

void StageProcess::Compute(const std::shared_ptr<Session>& session, const v1::StageExecute& plan,
                           Rows rows) {
  tenure_.Stepped();
  if (kind_ == Kind::kSampler) return Sample(session, plan, rows);
  if (kind_ == Kind::kEmbedding) {
    rows = Embed(plan.embedding());
  } else {
    std::optional<Rows> computed = Forward(*session, plan.shard(), rows);
    if (!computed.has_value()) {
      return CloseSession(session, absl::UnavailableError("a rank of the stage is lost"));
    }
    rows = *std::move(computed);
  }
  PushStream::SendRequest(session->to_next,
                          {.wiring = {}, .step_id = plan.step_id(), .rows = std::move(rows)});
}

bool StageProcess::FillIn(const Session& session, v1::EmbeddingExecute& plan) {
  for (const v1::ChosenToken& token : plan.chosen_tokens()) {
    const auto found = session.chosen.find(token.step_id());
    if (found == session.chosen.end()) return false;
    for (int i = 0; i < token.count(); ++i) {
      plan.set_token_ids(token.index() + i, found->second.at(token.row() + i));
    }
  }
  return true;
}

Rows StageProcess::Embed(const v1::EmbeddingExecute& plan) const {
  Rows rows;
  for (int i = 0; i < plan.token_ids_size(); ++i) {
    rows.push_back(EmbeddedRow(plan.token_ids(i), plan.positions(i)));
  }
  return rows;
}

std::optional<Rows> StageProcess::Forward(Session& session, const v1::ShardExecute& plan,
                                          const Rows& rows) {
  std::vector<StageProcess*> ranks;
  for (int rank = 0; rank < world_.options.num_ranks; ++rank) {
    ranks.push_back(PeerOf(session, rank));
    if (ranks.back() == nullptr) return std::nullopt;
  }
  const int block_size = world_.options.block_size;
  for (const v1::BlockCopy& copy : plan.block_copies()) {
    for (StageProcess* rank : ranks) {
      const auto source = rank->memory_.begin() + int64_t{copy.source()} * block_size;
      std::copy_n(source, block_size,
                  rank->memory_.begin() + int64_t{copy.destination()} * block_size);
    }
  }
  for (const uint64_t sequence : plan.ended_sequence_ids()) session.tables.erase(sequence);
  Rows result;
  size_t next_row = 0;
  for (const v1::Segment& segment : plan.segments()) {
    std::vector<int32_t>& table = session.tables[segment.sequence_id()];
    SLUICE_CHECK(segment.first_block() <= std::ssize(table));
    table.resize(segment.first_block());
    table.insert(table.end(), segment.blocks().begin(), segment.blocks().end());
    const auto slot = [&](int position) {
      return static_cast<size_t>(table.at(position / block_size)) * block_size +
             position % block_size;
    };
    std::vector<uint64_t> folds(ranks.size());
    const auto fold = [&](int position) {
      for (size_t rank = 0; rank < ranks.size(); ++rank) {
        folds[rank] = Mix(folds[rank], ranks[rank]->memory_.at(slot(position)));
      }
    };
    for (int position = 0; position < segment.first_position(); ++position) fold(position);
    for (int i = 0; i < segment.num_positions(); ++i) {
      const int position = segment.first_position() + i;
      for (size_t rank = 0; rank < ranks.size(); ++rank) {
        ranks[rank]->memory_.at(slot(position)) = SlotOf(rows.at(next_row), static_cast<int>(rank));
      }
      ++next_row;
      fold(position);
      result.push_back(StageRow(stage_, folds));
    }
  }
  SLUICE_CHECK(next_row == rows.size());
  if (stage_ + 1 < world_.options.num_stages) return result;
  Rows chosen;
  for (const int32_t row : plan.output_rows()) chosen.push_back(result.at(row));
  return chosen;
}

bool StageProcess::IsDeferred(Session& session, const v1::SamplerRow& asked) {
  if (asked.has_score_token_id()) return false;
  const uint64_t sequence = asked.sequence_id();
  const auto before = session.without_token.find(sequence);
  if (before != session.without_token.end()) {
    if (asked.position() > before->second) return true;
    session.without_token.erase(before);
  }
  if (!world_.chance->Percent(world_.options.deferred_percent)) return false;
  session.without_token[sequence] = asked.position();
  return true;
}

void StageProcess::Sample(const std::shared_ptr<Session>& session, const v1::StageExecute& step,
                          const Rows& rows) {
  const v1::SamplerExecute& plan = step.sampler();
  SLUICE_CHECK(plan.rows_size() == static_cast<int>(rows.size()));
  for (const uint64_t sequence : plan.ended_sequence_ids()) {
    session->seeds.erase(sequence);
    session->without_token.erase(sequence);
  }
  for (const v1::SamplerSequence& told : plan.sequences()) session->seeds[told.sequence_id()] = 0;
  v1::StageRunResponse response;
  response.mutable_executed()->set_epoch(session->wiring.epoch);
  response.mutable_executed()->set_step_id(step.step_id());
  v1::SamplerExecuted& executed = *response.mutable_executed()->mutable_sampler();
  for (int i = 0; i < plan.rows_size(); ++i) {
    const v1::SamplerRow& asked = plan.rows(i);
    if (asked.has_sample()) session->seeds[asked.sequence_id()] = asked.sample().seed();
    v1::SampledRow& row = *executed.add_rows();
    if (IsDeferred(*session, asked)) {
      row.set_deferred(true);
      continue;
    }
    const uint64_t seed = asked.has_score_token_id() ? 0 : session->seeds.at(asked.sequence_id());
    if (!asked.has_score_token_id() && world_.options.broken_seed == seed) {
      row.set_error_message("broken");
      row.set_error_code(static_cast<int>(absl::StatusCode::kFailedPrecondition));
      session->without_token[asked.sequence_id()] = asked.position();
      continue;
    }
    const TokenId token = asked.has_score_token_id()
                              ? asked.score_token_id()
                              : ChosenToken(rows[i], seed, asked.sequence_index());
    row.set_token_id(token);
    row.set_logprob(LogprobOf(rows[i], token));
    for (const TokenId top : MostProbable(rows[i], asked.num_logprobs())) {
      row.add_top_token_ids(top);
      row.add_top_logprobs(LogprobOf(rows[i], top));
    }
  }
  if (const auto follower = session->follower.lock()) {
    ChosenMessage chosen = {.step_id = step.step_id()};
    for (const v1::SampledRow& row : executed.rows()) chosen.tokens.push_back(row.token_id());
    FollowStream::SendResponse(follower, std::move(chosen));
  }
  session->answer(std::move(response));
}

}  // namespace sluice::simulation
