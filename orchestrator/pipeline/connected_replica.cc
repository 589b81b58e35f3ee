#include "orchestrator/pipeline/connected_replica.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/check.h"
#include "kernels/communicator/wiring_identity.h"
#include "orchestrator/pipeline/process_check.h"
#include "services/common/epoch.h"
#include "services/common/status.h"
#include "services/process/log.h"

namespace sluice {
namespace {

constexpr absl::Duration kAskTimeout = absl::Seconds(2);
// Between looks at processes that are left to a predecessor.
constexpr absl::Duration kYieldPause = absl::Milliseconds(100);
// How long all stages together may take to answer Open: at first, and after attempts that took
// longer. Ranks on GPUs need seconds to find each other.
constexpr absl::Duration kFirstOpenTimeout = absl::Seconds(20);
constexpr absl::Duration kLongestOpenTimeout = absl::Seconds(80);
// For a stage's own account of what it waited for in vain.
constexpr absl::Duration kOpenGrace = absl::Seconds(1);
// Processes that are starting can't be reached yet: news only when it goes on for longer.
constexpr absl::Duration kStartTime = absl::Seconds(10);
constexpr absl::Duration kFirstPause = absl::Milliseconds(20);
// A process that was lost is started again at once: as long as that takes, it is looked for often.
constexpr absl::Duration kRestartTime = absl::Seconds(2);
constexpr absl::Duration kLongestPauseAtFirst = absl::Milliseconds(40);
constexpr absl::Duration kLongestPause = absl::Milliseconds(500);
// Between attempts to open stages that belong to another orchestrator.
constexpr absl::Duration kStandbyPause = absl::Milliseconds(400);
// Reasons that are kept in mind: some name what is another each time.
constexpr size_t kMaxLoggedReasons = 32;

std::vector<ReplicaProcess> ProcessesOf(const Topology& topology) {
  std::vector<ReplicaProcess> processes;
  processes.push_back({.role = Role::kEmbedding, .address = topology.embedding});
  for (int stage = 0; stage < topology.num_stages(); ++stage) {
    for (int rank = 0; rank < topology.num_ranks(); ++rank) {
      processes.push_back({.role = Role::kShard,
                           .address = topology.shards[stage][rank],
                           .stage = stage,
                           .rank = rank});
    }
  }
  processes.push_back({.role = Role::kSampler, .address = topology.sampler});
  for (ReplicaProcess& process : processes) process.detail = "not reached yet";
  return processes;
}

absl::Duration DurationOf(uint64_t nanoseconds) {
  constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
  return absl::Nanoseconds(static_cast<int64_t>(std::min(nanoseconds, kMost)));
}

}  // namespace

ConnectedReplica::ConnectedReplica(ReplicaOptions options, StageNetwork* network)
    : options_(std::move(options)),
      network_(network),
      open_timeout_(kFirstOpenTimeout),
      tenures_(options_.topology.num_processes()),
      processes_(std::make_shared<std::vector<ReplicaProcess>>(ProcessesOf(options_.topology))) {}

ConnectedReplica::~ConnectedReplica() = default;

void ConnectedReplica::Advance(SteadyTime now) {
  while (Proceed(now)) {
  }
}

SteadyTime ConnectedReplica::NextWake() const {
  if (phase_ != Phase::kWired) return wake_;
  return given_up_.ok() ? SteadyTime::InfiniteFuture() : SteadyTime();
}

std::vector<ReplicaEvent> ConnectedReplica::TakeEvents() { return std::exchange(events_, {}); }

bool ConnectedReplica::Proceed(SteadyTime now) {
  switch (phase_) {
    case Phase::kPausing:
      if (now < wake_) return false;
      Ask(now);
      return true;
    case Phase::kAsking:
      return AwaitAnswers(now);
    case Phase::kOpening:
      return AwaitOpened(now);
    case Phase::kConfirming:
      return AwaitConfirmed(now);
    case Phase::kWired:
      return Watch(now);
  }
  return false;
}

// ---- Asking ----

bool ConnectedReplica::AwaitAnswers(SteadyTime now) {
  if (round_->num_unanswered > 0 && now < wake_) return false;
  KvGeometry geometry;
  const absl::Status status = Conclude(*round_, geometry);
  // Somebody else has opened a process, and may have computed.
  if (round_->newest_epoch > epoch_) keeps_blocks_ = false;
  for (size_t i = 0; status.ok() && i < round_->processes.size(); ++i) {
    if (round_->processes[i].role != Role::kShard) continue;
    keeps_blocks_ = keeps_blocks_ && HasItsBlocks(round_->infos[i], i);
  }
  if (status.ok()) opening_change_ = ChangeTo(geometry, round_->processes);
  processes_ = std::make_shared<std::vector<ReplicaProcess>>(std::move(round_->processes));
  epoch_ = std::max(epoch_, round_->newest_epoch);
  round_.reset();
  if (!status.ok()) {
    complete_since_ = SteadyTime();
    Pause(status, now);
  } else if (Yields(now)) {
    phase_ = Phase::kPausing;
    wake_ = now + kYieldPause;
  } else {
    Open(geometry, now);
  }
  return true;
}

bool ConnectedReplica::Yields(SteadyTime now) {
  if (complete_since_ == SteadyTime()) complete_since_ = now;
  return wired_epoch_ == 0 && now - complete_since_ < options_.yield_time;
}

void ConnectedReplica::Ask(SteadyTime now) {
  phase_ = Phase::kAsking;
  if (unready_since_ == SteadyTime()) unready_since_ = now;
  wake_ = now + kAskTimeout;
  round_ = std::make_shared<Round>();
  round_->processes = *processes_;
  const size_t size = round_->processes.size();
  round_->num_unanswered = static_cast<int>(size);
  round_->fits.resize(size);
  round_->infos.resize(size);
  for (size_t i = 0; i < size; ++i) {
    const ReplicaProcess& process = round_->processes[i];
    network_->Ask(process.role, process.address, kAskTimeout, Answer(i));
  }
}

// Knows the round alone, which late answers keep alive.
StageNetwork::InfoCallback ConnectedReplica::Answer(size_t index) {
  return [round = round_, index,
          fingerprint = options_.model_fingerprint](absl::StatusOr<v1::GetStageInfoResponse> info) {
    --round->num_unanswered;
    if (index >= round->processes.size()) return;  // concluded without this answer
    round->fits[index] =
        info.ok() ? TakeInfo(*info, fingerprint, round->processes[index]) : info.status();
    if (info.ok()) {
      round->fits[index]->Update(CheckEpoch(info->epoch()));
      // What a process that is not fit reports must not move the epoch of the others.
      if (info->epoch() < kMaxEpoch) {
        round->newest_epoch = std::max(round->newest_epoch, info->epoch());
      }
    }
    if (info.ok()) round->infos[index] = *std::move(info);
  };
}

absl::Status ConnectedReplica::Conclude(Round& round, KvGeometry& geometry) const {
  absl::Status first_failure;
  for (size_t i = 0; i < round.processes.size(); ++i) {
    ReplicaProcess& process = round.processes[i];
    absl::Status status = round.fits[i].value_or(absl::DeadlineExceededError(
        absl::StrCat("no answer within ", absl::FormatDuration(kAskTimeout))));
    if (status.ok() && process.role == Role::kShard) {
      const v1::ShardInfo& shard = round.infos[i].shard();
      status = TakePlace(shard, options_.topology, process, geometry);
      if (status.ok()) status = CheckSteps(shard, options_.max_step_tokens);
    }
    if (status.ok()) status = CheckArithmetic(round.processes, i);
    if (status.ok()) status = CheckWeights(round.processes, i);
    process.ready = status.ok();
    process.detail = std::string(status.message());
    network_->Refuse(process.address, absl::IsFailedPrecondition(status) ? process.detail : "");
    if (!status.ok() && first_failure.ok()) {
      first_failure = Annotate(status, absl::StrCat(process.service(), " at ", process.address));
    }
  }
  return first_failure;
}

std::string ConnectedReplica::ChangeTo(const KvGeometry& geometry,
                                       const std::vector<ReplicaProcess>& processes) const {
  if (geometry_.num_blocks == 0) return "";
  if (geometry.block_size != geometry_.block_size) {
    return absl::StrCat("the shards came back with blocks of ", geometry.block_size,
                        " positions, instead of ", geometry_.block_size);
  }
  for (size_t i = 0; i < processes.size(); ++i) {
    if (processes[i].weights_digest != weights_digest_) {
      return absl::StrCat(processes[i].service(), " at ", processes[i].address,
                          " came back with other weights");
    }
    if (processes[i].arithmetic == arithmetic_[i]) continue;
    return absl::StrCat(processes[i].service(), " at ", processes[i].address, " came back with ",
                        processes[i].arithmetic, ", instead of ", arithmetic_[i]);
  }
  return "";
}

// Two that take turns, as ranks' do, are told once each.
bool ConnectedReplica::IsNew(const absl::Status& reason) {
  if (logged_reasons_.size() >= kMaxLoggedReasons) logged_reasons_.clear();
  return logged_reasons_.insert(std::string(reason.message())).second;
}

// Another orchestrator works with the stages.
void ConnectedReplica::StandBy(const absl::Status& reason, SteadyTime now) {
  if (IsNew(reason)) {
    Log(LogLevel::kInfo, "orchestrator", "stands-by", {{"reason", std::string(reason.message())}});
  }
  keeps_blocks_ = false;
  auto processes = std::make_shared<std::vector<ReplicaProcess>>(*processes_);
  for (ReplicaProcess& process : *processes) {
    process.ready = false;
    process.detail = std::string(reason.message());
  }
  processes_ = std::move(processes);
  events_.emplace_back(ReplicaStandby{reason});
  wiring_.reset();  // `reason` may be its own
  phase_ = Phase::kPausing;
  wake_ = now + kStandbyPause;
}

void ConnectedReplica::Pause(const absl::Status& reason, SteadyTime now) {
  if (absl::IsAlreadyExists(reason)) return StandBy(reason, now);
  const bool expected = absl::IsUnavailable(reason) && now - unready_since_ < kStartTime;
  if (!expected && IsNew(reason)) {
    Log(LogLevel::kWarning, "orchestrator", "replica-not-ready",
        {{"reason", std::string(reason.message())}});
  }
  wiring_.reset();
  const bool at_first = now - unready_since_ < kRestartTime;
  pause_ = pause_ == absl::ZeroDuration()
               ? kFirstPause
               : std::min(pause_ * 1.6, at_first ? kLongestPauseAtFirst : kLongestPause);
  phase_ = Phase::kPausing;
  wake_ = now + pause_;
}

// ---- Opening ----

void ConnectedReplica::Open(const KvGeometry& geometry, SteadyTime now) {
  phase_ = Phase::kOpening;
  const SteadyTime deadline = now + open_timeout_;
  wake_ = deadline + kOpenGrace;
  epoch_ = EpochAfter(epoch_);
  // Blocks that the shards kept are used as they were planned.
  const bool holds_plan = geometry.num_blocks >= geometry_.num_blocks &&
                          geometry.num_state_slots >= geometry_.num_state_slots;
  keeps_blocks_ = keeps_blocks_ && opening_change_.empty() && holds_plan;
  opening_geometry_ = keeps_blocks_ ? geometry_ : geometry;
  const absl::StatusOr<WiringIdentity> identity =
      WiringIdentity::Make(DrawWiringNonce(), epoch_, options_.model_fingerprint);
  SLUICE_CHECK(identity.ok());
  wiring_ =
      std::make_unique<Wiring>(&options_.topology, network_,
                               WiringOptions{.identity = *identity,
                                             .orchestrator_nonce = nonce_,
                                             .num_kv_blocks = opening_geometry_.num_blocks,
                                             .num_state_slots = opening_geometry_.num_state_slots,
                                             .rank_transport = options_.rank_transport,
                                             .vocabulary_size = options_.vocabulary_size,
                                             .open_deadline = deadline});
}

bool ConnectedReplica::AwaitOpened(SteadyTime now) {
  wiring_->Advance(now);
  absl::Status failure = wiring_->lost();
  if (failure.ok() && !wiring_->opened()) {
    if (now < wake_) return false;
    failure = absl::DeadlineExceededError(absl::StrCat(wiring_->Unanswered(),
                                                       " did not answer Open within ",
                                                       absl::FormatDuration(open_timeout_)));
  }
  if (!failure.ok()) {
    // Ranks that were told that another had given up say so, and may be heard before it.
    if (absl::IsDeadlineExceeded(failure) || now + 2 * kOpenGrace >= wake_) {
      open_timeout_ = std::min(2 * open_timeout_, kLongestOpenTimeout);
    }
    Pause(failure, now);
    return true;
  }
  Ask(now);
  phase_ = Phase::kConfirming;
  return true;
}

// ---- Confirming ----

bool ConnectedReplica::HasItsBlocks(const v1::GetStageInfoResponse& info, size_t index) const {
  // Epochs of ours that came to nothing have computed nothing.
  const bool ours = info.epoch() >= wired_epoch_ && info.epoch() <= epoch_;
  return ours && info.tenure() != 0 && info.tenure() == tenures_[index];
}

// A process may have been replaced between its answer and its Open. Once it has answered Open, it
// is the one that answers here, or its stream is lost.
absl::Status ConnectedReplica::CheckSame(const std::vector<ReplicaProcess>& now,
                                         const KvGeometry& geometry) const {
  for (size_t i = 0; i < now.size(); ++i) {
    if (now[i].weights_digest == (*processes_)[i].weights_digest &&
        now[i].arithmetic == (*processes_)[i].arithmetic) {
      continue;
    }
    return absl::UnavailableError(absl::StrCat(now[i].service(), " at ", now[i].address,
                                               " was replaced while the replica was opened"));
  }
  if (geometry.block_size == opening_geometry_.block_size &&
      geometry.num_blocks >= opening_geometry_.num_blocks &&
      geometry.num_state_slots >= opening_geometry_.num_state_slots) {
    return absl::OkStatus();
  }
  return absl::UnavailableError(
      absl::StrCat("the shards have ", geometry.num_blocks, " blocks of ", geometry.block_size,
                   " positions and ", geometry.num_state_slots,
                   " slots for states, but were opened for ", opening_geometry_.num_blocks, " of ",
                   opening_geometry_.block_size, " and ", opening_geometry_.num_state_slots));
}

bool ConnectedReplica::AwaitConfirmed(SteadyTime now) {
  if (!wiring_->lost().ok()) {
    round_.reset();
    Pause(wiring_->lost(), now);
    return true;
  }
  if (round_->num_unanswered > 0 && now < wake_) return false;
  KvGeometry geometry;
  absl::Status status = Conclude(*round_, geometry);
  if (status.ok()) status = CheckSame(round_->processes, geometry);
  bool kept = keeps_blocks_;
  for (size_t i = 0; i < round_->processes.size(); ++i) {
    if (round_->processes[i].role != Role::kShard) continue;
    kept = kept && HasItsBlocks(round_->infos[i], i);
    if (status.ok()) tenures_[i] = round_->infos[i].tenure();
  }
  processes_ = std::make_shared<std::vector<ReplicaProcess>>(std::move(round_->processes));
  round_.reset();
  if (status.ok()) {
    BeWired(kept);
  } else {
    Pause(status, now);
  }
  return true;
}

void ConnectedReplica::BeWired(bool kept_blocks) {
  phase_ = Phase::kWired;
  keeps_blocks_ = true;
  wired_epoch_ = epoch_;
  pause_ = absl::ZeroDuration();
  open_timeout_ = kFirstOpenTimeout;
  unready_since_ = SteadyTime();
  logged_reasons_.clear();
  given_up_ = absl::OkStatus();
  geometry_ = opening_geometry_;
  weights_digest_ = processes_->front().weights_digest;
  arithmetic_.clear();
  for (const ReplicaProcess& process : *processes_) arithmetic_.push_back(process.arithmetic);
  events_.emplace_back(
      ReplicaReady{epoch_, geometry_, kept_blocks, std::exchange(opening_change_, "")});
}

// ---- Wired ----

bool ConnectedReplica::Watch(SteadyTime now) {
  for (StepExecuted& executed : wiring_->TakeExecuted()) {
    events_.emplace_back(std::move(executed));
  }
  TakeTimes();
  const absl::Status lost = wiring_->lost().ok() ? given_up_ : wiring_->lost();
  if (lost.ok()) return false;
  events_.emplace_back(ReplicaLost{lost});
  wiring_.reset();
  phase_ = Phase::kPausing;
  wake_ = now;
  return true;
}

void ConnectedReplica::TakeTimes() {
  const std::vector<Wiring::ReportedTimes> told = wiring_->TakeTimes();
  if (told.empty()) return;
  auto processes = std::make_shared<std::vector<ReplicaProcess>>(*processes_);
  for (const Wiring::ReportedTimes& of_one : told) {
    for (ReplicaProcess& process : *processes) {
      if (process.role != Role::kShard || process.stage != of_one.place.stage ||
          process.rank != of_one.place.rank) {
        continue;
      }
      process.busy = DurationOf(of_one.times.busy_ns());
      process.gap = DurationOf(of_one.times.gap_ns());
      process.gap_computed = DurationOf(of_one.times.gap_computed_ns());
    }
  }
  processes_ = std::move(processes);
}

void ConnectedReplica::Execute(const Step& step, absl::Span<const RowRequest> rows) {
  if (phase_ == Phase::kWired) wiring_->Execute(step, rows);
}

void ConnectedReplica::MarkFailed(const absl::Status& status) {
  if (phase_ == Phase::kWired) given_up_ = status;
}

}  // namespace sluice
