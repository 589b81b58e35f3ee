#include "orchestrator/draft_model/draft_model.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "kernels/check.h"
#include "orchestrator/drafts/model_rounds.h"
#include "services/common/log.h"

namespace sluice {
namespace {

// Positions that are computed in about the time of one.
constexpr int32_t kClose = 16;
// A draft may go so far beyond the last token that its sequence may have.
constexpr int32_t kBeyondEnd = 2;
// How long a sequence sits out whose mask is not ready.
constexpr absl::Duration kDeferral = absl::Milliseconds(2);

DraftKind KindOf(float logprob) {
  const double probability = std::exp(static_cast<double>(logprob));
  if (probability >= 0.9) return DraftKind::kModelSure;
  if (probability >= 0.6) return DraftKind::kModelLikely;
  return probability >= 0.3 ? DraftKind::kModelUnsure : DraftKind::kModelGuess;
}

}  // namespace

DraftModel::DraftModel(const DraftModelOptions& options, Replica* replica, DraftModelOwner owner)
    : options_(options),
      replica_(replica),
      owner_(std::move(owner)),
      times_(options.hang_timeout) {}

DraftModel::Followed* DraftModel::Find(SequenceId sequence) {
  const auto found = followed_.find(sequence);
  return found == followed_.end() ? nullptr : &found->second;
}

const DraftModel::Followed* DraftModel::Find(SequenceId sequence) const {
  const auto found = followed_.find(sequence);
  return found == followed_.end() ? nullptr : &found->second;
}

// ---- Sequences ----

void DraftModel::OnTokens(const SequenceSpec& spec, int32_t num_prompt,
                          absl::Span<const TokenId> tokens) {
  const auto [it, is_new] = followed_.try_emplace(spec.id);
  Followed& followed = it->second;
  if (is_new) {
    followed.end = num_prompt + spec.max_new_tokens;
    followed.cache_salt = spec.cache_salt;
    followed.use_prefix_cache = spec.use_prefix_cache;
  }
  followed.wanted = 0;
  followed.text.Learn(tokens);
}

void DraftModel::OnEnd(SequenceId sequence) {
  Followed* const followed = Find(sequence);
  if (followed == nullptr) return;
  Drop(*followed);
  followed_.erase(sequence);
}

bool DraftModel::HoldsBlocks(const Followed& followed) const {
  return !scheduler_->kv_cache().BlockTable(followed.id).empty();
}

bool DraftModel::IsClose(SequenceId sequence) const {
  const Followed* const followed = Find(sequence);
  if (!ready_ || followed == nullptr || followed->id == 0 || followed->computing) return false;
  if (followed->barred || !HoldsBlocks(*followed)) return false;
  const FollowedText& text = followed->text;
  return text.lags() ? std::ssize(text.rest()) <= kClose : text.has_choice();
}

bool DraftModel::IsAtWork(SequenceId sequence) const {
  return IsComputing(sequence) && Find(sequence)->wanted > 0;
}

bool DraftModel::IsComputing(SequenceId sequence) const {
  const Followed* const followed = Find(sequence);
  return ready_ && followed != nullptr && followed->computing;
}

absl::Span<const DraftToken> DraftModel::ProposalOf(SequenceId sequence) const {
  const Followed* const followed = Find(sequence);
  return followed == nullptr ? absl::Span<const DraftToken>() : followed->text.proposal();
}

void DraftModel::CatchUp(SequenceId sequence) {
  Followed* const followed = Find(sequence);
  if (!ready_ || followed == nullptr || followed->computing || followed->barred) return;
  if (followed->id != 0 && !HoldsBlocks(*followed)) Drop(*followed);
  if (followed->id == 0) {
    Start(sequence, *followed);
  } else if (followed->text.lags()) {
    CatchUp(sequence, *followed);
  }
}

bool DraftModel::Begin(SequenceId sequence, int32_t length) {
  if (!IsClose(sequence)) return false;
  Followed& followed = *Find(sequence);
  followed.wanted = length;
  if (followed.text.lags()) {
    CatchUp(sequence, followed);
  } else {
    GoOn(sequence, followed);
  }
  return followed.id != 0;
}

// Whoever is let in keeps what it has, but for those that others' drafts push out: so there is to
// be a block more for each.
bool DraftModel::HasRoom(int32_t num_tokens) const {
  const KvCache& cache = scheduler_->kv_cache();
  const auto num_here = static_cast<int32_t>(followers_.size());
  return num_here + 1 < options_.scheduler.max_sequences_per_step &&
         cache.num_available_blocks() - num_here >=
             cache.BlocksFor(num_tokens + ModelRounds::kMostTokens) + 1;
}

void DraftModel::Start(SequenceId sequence, Followed& followed) {
  const auto num_tokens = static_cast<int32_t>(followed.text.rest().size());
  const KvCache& cache = scheduler_->kv_cache();
  const int64_t capacity = int64_t{cache.num_total_blocks()} * cache.block_size();
  const int64_t end =
      std::min<int64_t>({options_.scheduler.max_positions, capacity, followed.end + kBeyondEnd});
  if (end < num_tokens + 2) {
    followed.barred = true;  // its context, or its pool, is too small for the sequence
    return;
  }
  if (!HasRoom(num_tokens)) return;
  followed.text.CatchUp();
  const absl::Span<const TokenId> tokens = followed.text.own();
  SequenceSpec spec;
  spec.id = next_id_++;
  spec.prompt.assign(tokens.begin(), tokens.end());
  spec.max_new_tokens = static_cast<int32_t>(end) - num_tokens;
  spec.cache_salt = followed.cache_salt;
  spec.use_prefix_cache = followed.use_prefix_cache;
  spec.externally_sampled = true;
  followed.id = spec.id;
  followers_[spec.id] = sequence;
  followed.computing = true;
  if (!scheduler_->Add(std::move(spec)).ok()) Drop(followed);
}

void DraftModel::CatchUp(SequenceId sequence, Followed& followed) {
  FollowedText& text = followed.text;
  const absl::Span<const TokenId> rest = text.rest();
  absl::Status status;
  if (rest.size() == 1 && text.num_common() == std::ssize(text.own())) {
    status = scheduler_->Append(followed.id, rest.front());
  } else {
    const SequenceId from = followed.id;
    const SequenceId to = next_id_++;
    status = scheduler_->Fork({.from = from,
                               .to = to,
                               .num_tokens = text.num_common(),
                               .continuation = {rest.begin(), rest.end()}});
    if (status.ok()) {
      SLUICE_CHECK(scheduler_->Finish(from, FinishReason::kCancelled).ok());
      followers_.erase(from);
      followers_[to] = sequence;
      followed.id = to;
    }
  }
  if (!status.ok()) {  // it is as long as it may be
    Drop(followed);
    followed.barred = true;
    return;
  }
  text.CatchUp();
  followed.computing = true;
}

void DraftModel::TakeChoice(Followed& followed) {
  const TokenId choice = followed.text.proposal().back().token;
  if (!scheduler_->Append(followed.id, choice).ok()) {
    followed.wanted = 0;  // it is as long as it may be
    return;
  }
  followed.text.TakeChoice();
  followed.computing = true;
}

void DraftModel::Drop(Followed& followed) {
  followed.text.Drop();
  followed.wanted = 0;
  followed.computing = false;
  if (followed.id == 0) return;
  if (scheduler_.has_value()) {
    scheduler_->Finish(followed.id, FinishReason::kCancelled).status().IgnoreError();
  }
  followers_.erase(followed.id);
  followed.id = 0;
}

// Proposes one token more, where somebody asks for it and it is worth it.
void DraftModel::GoOn(SequenceId sequence, Followed& followed) {
  const absl::Span<const DraftToken> proposal = followed.text.proposal();
  if (followed.wanted == 0) return;
  if (!followed.text.has_choice() || std::ssize(proposal) >= followed.wanted ||
      !owner_.goes_on(sequence, proposal)) {
    followed.wanted = 0;
    return;
  }
  TakeChoice(followed);
}

// ---- Steps ----

void DraftModel::Advance(SteadyTime now) {
  replica_->Advance(now);
  for (const ReplicaEvent& event : replica_->TakeEvents()) {
    if (const auto* executed = std::get_if<StepExecuted>(&event)) {
      On(*executed, now);
    } else if (const auto* ready = std::get_if<ReplicaReady>(&event)) {
      On(*ready);
    } else if (const auto* lost = std::get_if<ReplicaLost>(&event)) {
      On(*lost);
    }
  }
  if (!in_flight_.has_value() || given_up_ || now < in_flight_->sent + in_flight_->bound) return;
  times_.GaveUp();
  GiveUp(
      absl::DeadlineExceededError(absl::StrCat("step ", in_flight_->id, " did not complete within ",
                                               absl::FormatDuration(in_flight_->bound))));
}

SteadyTime DraftModel::NextWake() const {
  SteadyTime wake = replica_->NextWake();
  if (!returns_.empty()) wake = std::min(wake, returns_.front().first);
  if (!in_flight_.has_value() || given_up_) return wake;
  return std::min(wake, in_flight_->sent + in_flight_->bound);
}

void DraftModel::SendSteps(SteadyTime now) {
  for (; !returns_.empty() && returns_.front().first <= now; returns_.pop_front()) {
    if (scheduler_.has_value()) scheduler_->Return(returns_.front().second);
  }
  if (!ready_ || in_flight_.has_value()) return;
  if (const std::optional<Step> step = scheduler_->Plan()) Send(*step, now);
}

RowRequest DraftModel::RowFor(const Segment& segment) const {
  static const SamplingOptions kGreedy;
  const SequenceId sequence = followers_.at(segment.sequence);
  const Followed& followed = *Find(sequence);
  RowRequest row = owner_.describe_row(sequence).value_or(RowRequest{.task = &kGreedy});
  row.sequence = segment.sequence;
  row.tokens = followed.text.own();
  row.position = static_cast<int32_t>(row.tokens.size());
  row.previous = row.tokens.back();
  return row;
}

void DraftModel::Send(const Step& step, SteadyTime now) {
  std::vector<RowRequest> rows;
  for (const Segment& segment : step.segments) {
    if (!segment.rows.empty()) rows.push_back(RowFor(segment));
  }
  in_flight_ = {.id = step.id,
                .num_positions = step.num_tokens(),
                .num_rows = rows.size(),
                .sent = now,
                .bound = times_.Bound(step.num_tokens())};
  replica_->Execute(step, rows);
}

void DraftModel::On(const StepExecuted& executed, SteadyTime now) {
  if (given_up_) return;
  if (!in_flight_.has_value() || in_flight_->id != executed.step ||
      in_flight_->num_rows != executed.rows.size()) {
    return GiveUp(
        absl::InternalError(absl::StrCat("the sampler answered step ", executed.step, " with ",
                                         executed.rows.size(), " rows, out of turn")));
  }
  const StepInFlight step = *std::exchange(in_flight_, std::nullopt);
  std::vector<TokenId> tokens;
  std::vector<int32_t> deferred;
  for (const RowResult& row : executed.rows) {
    if (row.deferred) deferred.push_back(static_cast<int32_t>(tokens.size()));
    tokens.push_back(row.token);
  }
  const absl::StatusOr<StepOutcome> outcome = scheduler_->Commit(step.id, tokens, deferred);
  if (!outcome.ok()) return GiveUp(outcome.status());
  for (const SequenceId id : outcome->deferred) returns_.emplace_back(now + kDeferral, id);
  ++num_steps_;
  times_.Completed(step.num_positions, now - step.sent);
  owner_.on_step(step.num_positions, now - step.sent);
  for (const AcceptedRow& row : outcome->rows) OnRow(row.sequence, executed.rows[row.row]);
}

void DraftModel::OnRow(SequenceId id, const RowResult& row) {
  const SequenceId sequence = followers_.at(id);
  Followed& followed = *Find(sequence);
  followed.computing = false;
  if (!row.error.empty()) {  // nothing can follow, or it is not a number
    followed.wanted = 0;
    return;
  }
  if (!followed.text.lags()) ++num_proposed_;
  followed.text.Choose({.token = row.token, .kind = KindOf(row.logprob)});
  GoOn(sequence, followed);
}

// ---- What becomes of the replica ----

void DraftModel::On(const ReplicaReady& ready) {
  Log(LogLevel::kInfo, "orchestrator", "draft-model-ready",
      {{"epoch", ready.epoch},
       {"kv_blocks", ready.geometry.num_blocks},
       {"kept_blocks", ready.kept_blocks ? "yes" : "no"}});
  epoch_ = ready.epoch;
  const bool resized = scheduler_.has_value() &&
                       scheduler_->kv_cache().num_total_blocks() != ready.geometry.num_blocks;
  if (!ready.changed.empty() || resized) {
    for (auto& [sequence, followed] : followed_) Drop(followed);
    scheduler_.reset();
  }
  if (!scheduler_.has_value()) {
    scheduler_.emplace(options_.scheduler, KvCacheOptions{.num_blocks = ready.geometry.num_blocks,
                                                          .block_size = ready.geometry.block_size});
  }
  if (ready.kept_blocks) {
    scheduler_->AbandonSteps();
  } else {
    scheduler_->Reset();
  }
  ready_ = true;
}

void DraftModel::On(const ReplicaLost& lost) {
  Log(LogLevel::kWarning, "orchestrator", "draft-model-lost",
      {{"epoch", epoch_}, {"status", lost.status.ToString()}});
  ready_ = false;
  given_up_ = false;
  ++num_recoveries_;
  const bool was_at_work = std::exchange(in_flight_, std::nullopt).has_value();
  for (auto& [sequence, followed] : followed_) {
    followed.wanted = 0;
    if (!was_at_work || !followed.computing || ++followed.num_losses <= options_.max_losses) {
      continue;
    }
    Drop(followed);
    followed.barred = true;
  }
}

void DraftModel::GiveUp(const absl::Status& status) {
  given_up_ = true;
  replica_->GiveUp(status);
}

// ---- Looking on ----

DraftModelStatus DraftModel::status() const {
  return {.ready = ready_,
          .epoch = epoch_,
          .scheduler = scheduler_.has_value() ? scheduler_->statistics() : SchedulerStatistics{},
          .num_steps = num_steps_,
          .num_recoveries = num_recoveries_,
          .num_proposed_tokens = num_proposed_};
}

absl::Status DraftModel::CheckIntegrity() const {
  if (!scheduler_.has_value()) return absl::OkStatus();
  if (absl::Status status = scheduler_->CheckIntegrity(); !status.ok()) return status;
  const SchedulerStatistics statistics = scheduler_->statistics();
  const int32_t num_alive =
      statistics.waiting_sequences + statistics.running_sequences + statistics.paused_sequences;
  if (num_alive != std::ssize(followers_)) {
    return absl::InternalError(absl::StrCat("the draft model has ", num_alive, " sequences, ",
                                            followers_.size(), " of them for somebody"));
  }
  for (const auto& [id, sequence] : followers_) {
    const Followed* const followed = Find(sequence);
    if (followed != nullptr && followed->id == id) continue;
    return absl::InternalError(
        absl::StrCat("sequence ", id, " drafts for ", sequence, ", which does not know it"));
  }
  return absl::OkStatus();
}

}  // namespace sluice
