#include "orchestrator/draft_model/draft_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/check.h"
#include "orchestrator/drafts/model_rounds.h"
#include "services/process/log.h"

namespace sluice {
namespace {

// Positions that are computed in about the time of one.
constexpr int32_t kClose = 16;
// A draft may go so far beyond the last token that its sequence may have.
constexpr int32_t kBeyondEnd = 2;

DraftKind KindOf(float logprob) {
  const double probability = std::exp(static_cast<double>(logprob));
  if (probability >= 0.9) return DraftKind::kModelSure;
  if (probability >= 0.6) return DraftKind::kModelLikely;
  return probability >= 0.3 ? DraftKind::kModelUnsure : DraftKind::kModelGuess;
}

}  // namespace

DraftModel::DraftModel(const DraftModelOptions& options, Replica* replica, DraftModelOwner owner)
    : options_(options),
      owner_(std::move(owner)),
      runner_({.role = RunnerRole::kDraft,
               .scheduler = options.scheduler,
               .hang_timeout = options.hang_timeout},
              replica, this) {}

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
  return !runner_.scheduler()->kv_cache().BlockTable(followed.id).empty();
}

bool DraftModel::IsClose(SequenceId sequence) const {
  const Followed* const followed = Find(sequence);
  if (!runner_.ready() || followed == nullptr || followed->id == 0 || followed->computing)
    return false;
  if (followed->barred || !HoldsBlocks(*followed)) return false;
  const FollowedText& text = followed->text;
  return text.lags() ? std::ssize(text.rest()) <= kClose : text.has_choice();
}

bool DraftModel::IsAtWork(SequenceId sequence) const {
  return IsComputing(sequence) && Find(sequence)->wanted > 0;
}

bool DraftModel::IsComputing(SequenceId sequence) const {
  const Followed* const followed = Find(sequence);
  return runner_.ready() && followed != nullptr && followed->computing;
}

absl::Span<const DraftToken> DraftModel::ProposalOf(SequenceId sequence) const {
  const Followed* const followed = Find(sequence);
  return followed == nullptr ? absl::Span<const DraftToken>() : followed->text.proposal();
}

void DraftModel::CatchUp(SequenceId sequence) {
  Followed* const followed = Find(sequence);
  if (!runner_.ready() || followed == nullptr || followed->computing || followed->barred) return;
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
  const KvCache& cache = runner_.scheduler()->kv_cache();
  const auto num_here = static_cast<int32_t>(followers_.size());
  return num_here + 1 < options_.scheduler.max_sequences_per_step &&
         cache.num_available_blocks() - num_here >=
             cache.BlocksFor(num_tokens + ModelRounds::kMostTokens) + 1;
}

void DraftModel::Start(SequenceId sequence, Followed& followed) {
  const auto num_tokens = static_cast<int32_t>(followed.text.rest().size());
  const KvCache& cache = runner_.scheduler()->kv_cache();
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
  if (!runner_.scheduler()->Add(std::move(spec)).ok()) Drop(followed);
}

void DraftModel::CatchUp(SequenceId sequence, Followed& followed) {
  FollowedText& text = followed.text;
  const absl::Span<const TokenId> rest = text.rest();
  absl::Status status;
  if (rest.size() == 1 && text.num_common() == std::ssize(text.own())) {
    status = runner_.scheduler()->Append(followed.id, rest.front());
  } else {
    const SequenceId from = followed.id;
    const SequenceId to = next_id_++;
    status = runner_.scheduler()->Fork({.from = from,
                                        .to = to,
                                        .num_tokens = text.num_common(),
                                        .continuation = {rest.begin(), rest.end()}});
    if (status.ok()) {
      SLUICE_CHECK(runner_.scheduler()->Finish(from, FinishReason::kCancelled).ok());
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
  if (!runner_.scheduler()->Append(followed.id, choice).ok()) {
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
  if (runner_.scheduler() != nullptr) {
    runner_.scheduler()->Finish(followed.id, FinishReason::kCancelled).status().IgnoreError();
  }
  followers_.erase(followed.id);
  followed.id = 0;
}

void DraftModel::DropAll() {
  for (auto& [sequence, followed] : followed_) Drop(followed);
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

void DraftModel::DescribeRows(const Step& step, std::vector<RowRequest>& rows) {
  for (const Segment& segment : step.segments) {
    if (!segment.rows.empty()) rows.push_back(RowFor(segment));
  }
}

void DraftModel::OnCommitted(StepOutcome outcome, std::vector<RowResult> rows) {
  for (const AcceptedRow& row : outcome.rows) OnRow(row.sequence, rows[row.row]);
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

void DraftModel::OnLost(const absl::Status& status, absl::Span<const SequenceId> in_flight,
                        SteadyTime /*now*/) {
  Log(LogLevel::kWarning, "orchestrator", "draft-model-lost",
      {{"epoch", runner_.epoch()}, {"status", status.ToString()}});
  for (auto& [sequence, followed] : followed_) followed.wanted = 0;
  for (const SequenceId id : in_flight) {
    const auto found = followers_.find(id);
    if (found == followers_.end()) continue;  // it has ended
    Followed& followed = *Find(found->second);
    if (++followed.num_losses <= options_.max_losses) continue;
    Drop(followed);
    followed.barred = true;
  }
}

absl::Status DraftModel::CheckIntegrity() const {
  const Scheduler* const scheduler = runner_.scheduler();
  if (scheduler == nullptr) return absl::OkStatus();
  if (absl::Status status = scheduler->CheckIntegrity(); !status.ok()) return status;
  const SchedulerStatistics statistics = scheduler->statistics();
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
