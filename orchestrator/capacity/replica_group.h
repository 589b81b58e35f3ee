// Replicas that serve requests of a load in virtual time: a loop over their engines, which sends
// requests to them and takes what becomes of them. A part of fleet.h. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <queue>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "orchestrator/capacity/fleet.h"
#include "orchestrator/capacity/simulated_replica.h"
#include "orchestrator/engine/engine_core.h"
#include "orchestrator/kv_events/kv_event_publisher.h"
#include "services/routing/replica_chooser.h"

namespace sluice {

class ReplicaGroup final : private EngineObserver {
 public:
  // `num_replicas` of the fleet, which serve requests `first`, `first` + `stride` and so on. Borrows
  // both.
  ReplicaGroup(const Trace& trace, const FleetOptions& options, int num_replicas, size_t first,
               size_t stride);

  // Until every request has ended. Of the figures, `busy` is in seconds and FleetWindow::used_blocks
  // a number of blocks. Once.
  FleetFigures Run();

 private:
  class Sink;
  class Listener;

  struct Member {
    std::unique_ptr<KvEventPublisher> events;   // null in turns
    ReplicaId id = -1;                          // of the chooser
    std::unique_ptr<SimulatedReplica> replica;  // null while it is lost
    std::unique_ptr<EngineCore> core;           // the same
    SteadyTime wake = SteadyTime::InfiniteFuture();
    absl::flat_hash_map<size_t, std::shared_ptr<Sink>> live;  // by index in the trace
    double busy_seconds = 0;                                  // of incarnations that were lost
  };

  struct Wake {
    SteadyTime when;
    size_t member = 0;

    // On top of a heap is the earliest, and of one time the first member.
    friend bool operator<(const Wake& a, const Wake& b) {
      return a.when == b.when ? a.member > b.member : a.when > b.when;
    }
  };

  void OnStep(absl::Duration /*time*/, int /*positions*/, int /*sequences*/) override {}
  void OnRequestEnded(const RequestLedger& ended) override;

  EngineOptions OptionsOfEngine(KvEventPublisher* events);
  // Does what comes next; false: all is over.
  bool RunNext();
  SteadyTime NextArrival() const;
  // When the next replica has something to do; nothing where all wait for requests.
  std::optional<Wake> NextWake();
  void SetTime(SteadyTime time);

  void Arrive();
  void Send(size_t index, std::shared_ptr<Sink> sink);
  std::optional<size_t> PickMember(const EngineRequest& request);
  void Advance(size_t member);
  void Start(size_t member);
  void Lose(size_t member);
  void CountWork(Member& member);

  void EndWindow();
  FleetWindow& WindowAt(double seconds);

  const Trace& trace_;
  const FleetOptions& options_;
  const size_t stride_;
  size_t next_;  // request
  std::vector<Member> members_;
  std::priority_queue<Wake> wakes_;   // those that are not Member::wake are out of date
  std::priority_queue<Wake> losses_;  // to come
  std::priority_queue<Wake> starts_;  // of lost ones
  std::deque<std::pair<size_t, std::shared_ptr<Sink>>> held_;  // while no replica serves
  size_t next_member_ = 0;
  ReplicaChooser chooser_;
  absl::flat_hash_map<ReplicaId, size_t> member_of_;
  SteadyTime now_ = SteadyTime::FromStart(absl::ZeroDuration());
  double now_seconds_ = 0;
  double window_end_ = 0;
  RequestId last_id_ = 0;
  FleetFigures figures_;
};

}  // namespace sluice
