#include "orchestrator/capacity/fleet.h"

#include <algorithm>
#include <memory>
#include <queue>
#include <utility>

#include "absl/time/time.h"
#include "orchestrator/capacity/simulated_replica.h"
#include "orchestrator/engine/engine_core.h"

namespace sluice {
namespace {

constexpr int kWindows = 120;         // in the time in which requests arrive
constexpr size_t kMostWindows = 480;  // a fleet that falls behind goes on for longer

class Fleet final : private EngineObserver {
 public:
  Fleet(const Trace& trace, const FleetOptions& options);

  FleetFigures Run();

 private:
  class Sink;

  struct Member {
    std::unique_ptr<SimulatedReplica> replica;
    std::unique_ptr<EngineCore> core;
    SteadyTime wake = SteadyTime::InfiniteFuture();
  };

  struct Wake {
    SteadyTime when;
    size_t member = 0;

    // On top of a heap is the earliest, and of one time the first member.
    friend bool operator<(const Wake& a, const Wake& b) {
      return a.when == b.when ? a.member > b.member : a.when > b.when;
    }
  };

  void OnStep(absl::Duration, int, int) override {}
  void OnRequestEnded(const RequestLedger& ended) override;

  EngineOptions OptionsOfEngine();
  void SetTime(SteadyTime time);
  void Submit(size_t index);
  void Advance(size_t member);
  // The next replica that has something to do; nothing where all wait for requests.
  std::optional<Wake> NextWake();
  void EndWindow();
  FleetWindow& WindowAt(double seconds);
  void Finish();

  const Trace& trace_;
  const FleetOptions& options_;
  std::vector<Member> members_;
  std::priority_queue<Wake> wakes_;  // those that are not Member::wake are out of date
  SteadyTime now_ = SteadyTime::FromStart(absl::ZeroDuration());
  double now_seconds_ = 0;
  double window_end_ = 0;
  int64_t num_windows_ended_ = 0;
  size_t next_member_ = 0;
  FleetFigures figures_;
};

// Writes down when the tokens of one request come.
class Fleet::Sink final : public RequestSink {
 public:
  Sink(Fleet* fleet, double arrival) : fleet_(*fleet), arrival_(arrival) {}

  void OnChunk(ChunkEvent /*chunk*/) override {
    const double now = fleet_.now_seconds_;
    if (num_tokens_++ > 0) {
      fleet_.figures_.between_tokens.Add(now - last_);
    } else {
      first_ = now;
      fleet_.figures_.first_token.Add(SinceArrival(now));
      fleet_.WindowAt(arrival_).first_token.Add(SinceArrival(now));
    }
    last_ = now;
  }

  void OnFinished(RequestEnd end) override {
    FleetFigures& figures = fleet_.figures_;
    ++figures.num_finished;
    figures.prompt_tokens += end.num_prompt_tokens;
    figures.cached_prompt_tokens += end.num_cached_prompt_tokens;
    figures.generated_tokens += num_tokens_;
    figures.request.Add(SinceArrival(last_));
    const double between = num_tokens_ > 1 ? (last_ - first_) / (num_tokens_ - 1) : 0;
    const bool kept =
        fleet_.options_.levels.KeptBy(SinceArrival(first_), between, SinceArrival(last_));
    figures.num_kept += kept ? 1 : 0;
    figures.seconds = std::max(figures.seconds, last_);
  }

  void OnFailed(absl::Status status) override {
    FleetFigures& figures = fleet_.figures_;
    if (status.code() == absl::StatusCode::kResourceExhausted) {
      ++figures.num_refused;
    } else if (figures.num_failed++ == 0) {
      figures.failure = std::string(status.message());
    }
  }

 private:
  double SinceArrival(double time) const {
    return time - arrival_ + fleet_.options_.costs.request_seconds;
  }

  Fleet& fleet_;
  const double arrival_;
  double first_ = 0;
  double last_ = 0;
  int32_t num_tokens_ = 0;
};

Fleet::Fleet(const Trace& trace, const FleetOptions& options)
    : trace_(trace), options_(options), members_(static_cast<size_t>(options.num_replicas)) {
  figures_.num_requests = std::ssize(trace.requests);
  figures_.arrival_seconds = trace.seconds();
  figures_.window_seconds = std::max(trace.seconds() / kWindows, 1e-3);
  window_end_ = figures_.window_seconds;
  const KvGeometry geometry = {.block_size = options.block_size, .num_blocks = options.num_blocks};
  for (Member& member : members_) {
    member.replica = std::make_unique<SimulatedReplica>(&options.costs, geometry);
    member.core = std::make_unique<EngineCore>(OptionsOfEngine(), member.replica.get(), nullptr);
  }
}

EngineOptions Fleet::OptionsOfEngine() {
  EngineOptions engine;
  engine.scheduler = options_.scheduler;
  engine.hang_timeout = absl::InfiniteDuration();
  engine.integrity_interval = absl::InfiniteDuration();
  engine.observer = this;
  return engine;
}

FleetFigures Fleet::Run() {
  for (size_t member = 0; member < members_.size(); ++member) Advance(member);
  size_t next = 0;
  while (true) {
    const std::optional<Wake> wake = NextWake();
    const bool arrives = next < trace_.requests.size();
    if (!arrives && !wake.has_value()) break;
    const SteadyTime arrival =
        arrives ? SteadyTime::FromStart(absl::Seconds(trace_.requests[next].arrival))
                : SteadyTime::InfiniteFuture();
    if (wake.has_value() && wake->when <= arrival) {
      wakes_.pop();
      SetTime(wake->when);
      Advance(wake->member);
    } else {
      SetTime(arrival);
      Submit(next++);
    }
  }
  Finish();
  return std::move(figures_);
}

std::optional<Fleet::Wake> Fleet::NextWake() {
  while (!wakes_.empty()) {
    const Wake& top = wakes_.top();
    if (members_[top.member].wake == top.when) return top;
    wakes_.pop();
  }
  return std::nullopt;
}

void Fleet::SetTime(SteadyTime time) {
  const double seconds = absl::ToDoubleSeconds(time.since_start());
  while (seconds >= window_end_ && figures_.windows.size() < kMostWindows) EndWindow();
  now_ = time;
  now_seconds_ = seconds;
}

void Fleet::Submit(size_t index) {
  const TracedRequest& traced = trace_.requests[index];
  ++WindowAt(traced.arrival).arrivals;
  const size_t member = next_member_++ % members_.size();
  EngineRequest request;
  request.prompt = PromptOf(trace_, index);
  request.max_new_tokens = traced.new_tokens;
  request.sampling.seed = index;
  request.wants_text = false;
  request.tenant = trace_.tenants[traced.tenant];
  request.arrived = now_;
  members_[member].core->Submit(index + 1, std::move(request),
                                std::make_shared<Sink>(this, traced.arrival));
  Advance(member);
}

void Fleet::Advance(size_t index) {
  Member& member = members_[index];
  member.wake = member.core->Advance(now_);
  if (member.wake < SteadyTime::InfiniteFuture()) wakes_.push({member.wake, index});
}

void Fleet::OnRequestEnded(const RequestLedger& ended) {
  if (ended.times.started.has_value()) {
    figures_.queue.Add(absl::ToDoubleSeconds(*ended.times.started - *ended.times.arrived));
  }
  for (const SequenceLedger& sequence : ended.sequences) {
    figures_.num_preemptions += sequence.usage.preemptions;
  }
}

FleetWindow& Fleet::WindowAt(double seconds) {
  const auto index =
      std::min(static_cast<size_t>(seconds / figures_.window_seconds), kMostWindows - 1);
  if (index >= figures_.windows.size()) figures_.windows.resize(index + 1);
  return figures_.windows[index];
}

void Fleet::EndWindow() {
  FleetWindow& window = WindowAt(window_end_ - figures_.window_seconds / 2);
  double used = 0;
  for (const Member& member : members_) {
    const SchedulerStatistics statistics = member.core->scheduler()->statistics();
    window.waiting += statistics.waiting_sequences;
    window.running += statistics.running_sequences;
    used += statistics.kv_cache.used_blocks;
  }
  window.used_blocks =
      used / static_cast<double>(options_.num_blocks) / static_cast<double>(members_.size());
  figures_.mean_used_blocks += window.used_blocks;  // their sum until Finish
  figures_.most_used_blocks = std::max(figures_.most_used_blocks, window.used_blocks);
  ++num_windows_ended_;
  window_end_ += figures_.window_seconds;
}

void Fleet::Finish() {
  if (num_windows_ended_ > 0) figures_.mean_used_blocks /= static_cast<double>(num_windows_ended_);
  for (const Member& member : members_) {
    figures_.num_steps += member.replica->num_steps();
    figures_.num_segments += member.replica->num_segments();
    figures_.busy.push_back(figures_.seconds > 0 ? member.replica->busy_seconds() / figures_.seconds
                                                 : 0);
  }
}

}  // namespace

FleetFigures SimulateFleet(const Trace& trace, const FleetOptions& options) {
  return Fleet(trace, options).Run();
}

std::optional<int> FewestThatKeep(int most, const std::function<bool(int)>& keeps) {
  int fails = 0;
  int holds = 1;
  while (!keeps(holds)) {
    if (holds == most) return std::nullopt;
    fails = holds;
    holds = std::min(2 * holds, most);
  }
  while (holds - fails > 1) {
    const int middle = fails + (holds - fails) / 2;
    (keeps(middle) ? holds : fails) = middle;
  }
  return holds;
}

}  // namespace sluice
