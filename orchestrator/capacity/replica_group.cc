#include "orchestrator/capacity/replica_group.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace sluice {
namespace {

constexpr int kWindows = 120;         // in the time in which requests arrive
constexpr size_t kMostWindows = 480;  // a fleet that falls behind goes on for longer
constexpr double kShortestWindow = 1e-3;

SteadyTime TimeAt(double seconds) { return SteadyTime::FromStart(absl::Seconds(seconds)); }

}  // namespace

// Writes down when the tokens of one request come.
class ReplicaGroup::Sink final : public RequestSink {
 public:
  Sink(ReplicaGroup* group, size_t index)
      : group_(*group), index_(index), arrival_(group->trace_.requests[index].arrival) {}

  // Where it is served from now on.
  void SetMember(size_t member) { member_ = member; }
  int32_t num_tokens() const { return num_tokens_; }

  void OnChunk(ChunkEvent /*chunk*/) override {
    const double now = group_.now_seconds_;
    if (num_tokens_++ > 0) {
      group_.figures_.between_tokens.Add(now - last_);
    } else {
      first_ = now;
      group_.figures_.first_token.Add(SinceArrival(now));
      group_.WindowAt(arrival_).first_token.Add(SinceArrival(now));
    }
    last_ = now;
  }

  void OnFinished(RequestEnd end) override {
    FleetFigures& figures = group_.figures_;
    ++figures.num_finished;
    figures.prompt_tokens += end.num_prompt_tokens;
    figures.cached_prompt_tokens += end.num_cached_prompt_tokens;
    figures.generated_tokens += num_tokens_;
    figures.request.Add(SinceArrival(last_));
    const double between = num_tokens_ > 1 ? (last_ - first_) / (num_tokens_ - 1) : 0;
    const bool kept =
        group_.options_.levels.KeptBy(SinceArrival(first_), between, SinceArrival(last_));
    figures.num_kept += kept ? 1 : 0;
    figures.seconds = std::max(figures.seconds, last_);
    End();
  }

  void OnFailed(absl::Status status) override {
    FleetFigures& figures = group_.figures_;
    if (status.code() == absl::StatusCode::kResourceExhausted) {
      ++figures.num_refused;
    } else if (figures.num_failed++ == 0) {
      figures.failure = std::string(status.message());
    }
    End();
  }

 private:
  double SinceArrival(double time) const {
    return time - arrival_ + group_.options_.costs.request_seconds;
  }
  void End() { group_.members_[member_].live.erase(index_); }

  ReplicaGroup& group_;
  const size_t index_;
  const double arrival_;
  size_t member_ = 0;
  double first_ = 0;
  double last_ = 0;
  int32_t num_tokens_ = 0;
};

// Tells the chooser what a replica publishes, as a gateway does.
class ReplicaGroup::Listener final : public KvSubscriber {
 public:
  Listener(ReplicaChooser* chooser, ReplicaId replica, int32_t block_size)
      : chooser_(*chooser), replica_(replica), block_size_(block_size) {}

  bool OnBatch(const std::shared_ptr<const KvEventBatch>& batch) override {
    if (batch->cache.has_value()) chooser_.Forget(replica_);
    chooser_.Dropped(replica_, batch->removed_prompts);
    chooser_.Stored(replica_, batch->prompts, batch->prompt_positions);
    if (!batch->load.has_value()) return true;
    chooser_.SetLoad(
        replica_, {.serving = batch->load->serving,
                   .waiting_tokens = batch->load->num_waiting_tokens,
                   .held_tokens = batch->load->num_held_tokens,
                   .available_tokens = int64_t{batch->load->num_available_blocks} * block_size_});
    return true;
  }

 private:
  ReplicaChooser& chooser_;
  const ReplicaId replica_;
  const int32_t block_size_;
};

ReplicaGroup::ReplicaGroup(const Trace& trace, const FleetOptions& options, int num_replicas,
                           size_t first, size_t stride)
    : trace_(trace),
      options_(options),
      stride_(stride),
      next_(first),
      members_(static_cast<size_t>(num_replicas)) {
  figures_.arrival_seconds = trace.seconds();
  figures_.window_seconds = std::max(trace.seconds() / kWindows, kShortestWindow);
  window_end_ = figures_.window_seconds;
  for (const FleetLoss& loss : options.losses) {
    losses_.push({TimeAt(loss.seconds), static_cast<size_t>(loss.replica)});
  }
}

EngineOptions ReplicaGroup::OptionsOfEngine(KvEventPublisher* events) {
  EngineOptions engine;
  engine.kv_events = events;
  engine.scheduler = options_.scheduler;
  engine.hang_timeout = absl::InfiniteDuration();
  engine.integrity_interval = absl::InfiniteDuration();
  engine.observer = this;
  return engine;
}

FleetFigures ReplicaGroup::Run() {
  for (size_t member = 0; member < members_.size(); ++member) Start(member);
  while (RunNext()) {
  }
  for (Member& member : members_) {
    CountWork(member);
    figures_.busy.push_back(member.busy_seconds);
  }
  return std::move(figures_);
}

// Of one time: what replicas do, losses, starts, arrivals.
bool ReplicaGroup::RunNext() {
  const std::optional<Wake> wake = NextWake();
  const SteadyTime never = SteadyTime::InfiniteFuture();
  const SteadyTime works = wake.has_value() ? wake->when : never;
  const SteadyTime arrives = NextArrival();
  if (works == never && arrives == never && held_.empty()) return false;
  const SteadyTime loses = losses_.empty() ? never : losses_.top().when;
  const SteadyTime starts = starts_.empty() ? never : starts_.top().when;
  const SteadyTime next = std::min({works, arrives, loses, starts});
  SetTime(next);
  if (works == next) {
    wakes_.pop();
    Advance(wake->member);
  } else if (loses == next) {
    const size_t member = losses_.top().member;
    losses_.pop();
    Lose(member);
  } else if (starts == next) {
    const size_t member = starts_.top().member;
    starts_.pop();
    Start(member);
  } else {
    Arrive();
  }
  return true;
}

SteadyTime ReplicaGroup::NextArrival() const {
  return next_ < trace_.requests.size() ? TimeAt(trace_.requests[next_].arrival)
                                        : SteadyTime::InfiniteFuture();
}

std::optional<ReplicaGroup::Wake> ReplicaGroup::NextWake() {
  while (!wakes_.empty()) {
    const Wake& top = wakes_.top();
    if (members_[top.member].wake == top.when) return top;
    wakes_.pop();
  }
  return std::nullopt;
}

void ReplicaGroup::SetTime(SteadyTime time) {
  const double seconds = absl::ToDoubleSeconds(time.since_start());
  const double last_end = figures_.window_seconds * kMostWindows;
  while (seconds >= window_end_ && window_end_ < last_end) EndWindow();
  now_ = time;
  now_seconds_ = seconds;
}

// ---- Requests ----

void ReplicaGroup::Arrive() {
  ++figures_.num_requests;
  ++WindowAt(trace_.requests[next_].arrival).arrivals;
  Send(next_, std::make_shared<Sink>(this, next_));
  next_ += stride_;
}

void ReplicaGroup::Send(size_t index, std::shared_ptr<Sink> sink) {
  const TracedRequest& traced = trace_.requests[index];
  EngineRequest request;
  request.prompt = PromptOf(trace_, index);
  request.max_new_tokens = traced.new_tokens;
  request.sampling.seed = index;
  request.wants_text = false;
  request.tenant = trace_.tenants[traced.tenant];
  request.cache_salt = request.tenant;
  request.arrived = TimeAt(traced.arrival);
  if (options_.routing == FleetRouting::kPrefix) {
    PromptKeyBuilder keys("ids", /*adapter=*/"");
    keys.Add(request.prompt);
    request.prompt_keys = std::make_shared<const PromptKeys>(keys.Finish());
  }
  if (sink->num_tokens() > 0) {
    std::vector<TokenId>& tokens = request.resumed.emplace_back();
    for (int32_t i = 0; i < sink->num_tokens(); ++i) tokens.push_back(NewTokenOf(index, i));
  }
  const std::optional<size_t> member = PickMember(request);
  if (!member.has_value()) {
    held_.emplace_back(index, std::move(sink));
    return;
  }
  sink->SetMember(*member);
  members_[*member].live.emplace(index, sink);
  members_[*member].core->Submit(++last_id_, std::move(request), std::move(sink));
  Advance(*member);
}

std::optional<size_t> ReplicaGroup::PickMember(const EngineRequest& request) {
  if (starts_.size() == members_.size()) return std::nullopt;
  if (options_.routing == FleetRouting::kTurns) {
    while (members_[next_member_ % members_.size()].core == nullptr) ++next_member_;
    return next_member_++ % members_.size();
  }
  const ReplicaChoice choice =
      chooser_.Choose(*request.prompt_keys, CacheScope(request.cache_salt), now_seconds_);
  return member_of_.at(choice.replica);
}

void ReplicaGroup::OnRequestEnded(const RequestLedger& ended) {
  if (ended.times.started.has_value()) {
    figures_.queue.Add(absl::ToDoubleSeconds(*ended.times.started - *ended.times.arrived));
  }
  for (const SequenceLedger& sequence : ended.sequences) {
    figures_.num_preemptions += sequence.usage.preemptions;
  }
}

// ---- Replicas ----

void ReplicaGroup::Advance(size_t index) {
  Member& member = members_[index];
  member.wake = member.core->Advance(now_);
  if (member.wake < SteadyTime::InfiniteFuture()) wakes_.push({member.wake, index});
}

void ReplicaGroup::Start(size_t index) {
  Member& member = members_[index];
  const KvGeometry geometry = {.block_size = options_.block_size,
                               .num_blocks = options_.num_blocks};
  member.replica = std::make_unique<SimulatedReplica>(&options_.costs, geometry);
  if (options_.routing == FleetRouting::kPrefix) {
    member.events = std::make_unique<KvEventPublisher>();
    member.id = chooser_.Add(absl::StrCat(index));
    member_of_[member.id] = index;
  }
  member.core = std::make_unique<EngineCore>(OptionsOfEngine(member.events.get()),
                                             member.replica.get(), nullptr);
  Advance(index);
  if (member.events != nullptr) {
    member.events->Subscribe(std::make_shared<Listener>(&chooser_, member.id, options_.block_size));
  }
  for (auto& [request, sink] : std::exchange(held_, {})) Send(request, std::move(sink));
}

void ReplicaGroup::Lose(size_t index) {
  Member& member = members_[index];
  if (member.core == nullptr) return;  // it was lost before, and has not come back yet
  ++figures_.num_losses;
  CountWork(member);
  member.core.reset();
  member.replica.reset();
  member.events.reset();
  chooser_.Remove(member.id);
  while (chooser_.Sweep(std::numeric_limits<size_t>::max())) {
  }
  member.wake = SteadyTime::InfiniteFuture();
  starts_.push({now_ + absl::Seconds(options_.start_seconds), index});
  const auto live = std::exchange(member.live, {});
  std::vector<size_t> requests;
  for (const auto& [request, sink] : live) requests.push_back(request);
  std::sort(requests.begin(), requests.end());
  figures_.num_moved += std::ssize(requests);
  for (const size_t request : requests) Send(request, live.at(request));
}

void ReplicaGroup::CountWork(Member& member) {
  if (member.replica == nullptr) return;
  member.busy_seconds += member.replica->busy_seconds();
  figures_.num_steps += member.replica->num_steps();
  figures_.num_segments += member.replica->num_segments();
}

// ---- Windows ----

FleetWindow& ReplicaGroup::WindowAt(double seconds) {
  const auto index =
      std::min(static_cast<size_t>(seconds / figures_.window_seconds), kMostWindows - 1);
  if (index >= figures_.windows.size()) figures_.windows.resize(index + 1);
  return figures_.windows[index];
}

void ReplicaGroup::EndWindow() {
  FleetWindow& window = WindowAt(window_end_ - figures_.window_seconds / 2);
  for (const Member& member : members_) {
    if (member.core == nullptr) continue;
    const SchedulerStatistics statistics = member.core->scheduler()->statistics();
    window.waiting += statistics.waiting_sequences;
    window.running += statistics.running_sequences;
    window.used_blocks += statistics.kv_cache.used_blocks;
  }
  window_end_ += figures_.window_seconds;
}

}  // namespace sluice
