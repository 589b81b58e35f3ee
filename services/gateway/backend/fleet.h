// The orchestrators behind a gateway: what each says that it holds (KvEvents), and which of them a
// request goes to. Thread-safe.
#pragma once

#include <grpcpp/channel.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "services/common/steady_time.h"
#include "services/routing/prompt_keys.h"
#include "services/routing/replica_chooser.h"
#include "sluice/v1/generation.pb.h"
#include "sluice/v1/kv_events.pb.h"

namespace sluice::gateway {

// Where a request goes, from one try to the next.
struct Route {
  std::optional<PromptKeys> keys;  // once they were asked for
  PrefixKey sharer = 0;            // on whose behalf it is made: whom its keys' scope is known by
  ReplicaChoice choice;
  ReplicaId lost = -1;  // where the last try failed
};

// For metrics.
struct FleetFigures {
  int64_t num_orchestrators = 0;
  int64_t num_heard = 0;                                        // that say what they hold
  int64_t num_prefixes = 0;                                     // that some orchestrator holds
  int64_t num_by_prefix = 0, num_by_hash = 0, num_by_load = 0;  // calls, by how they were routed
  int64_t num_known_tokens = 0;  // of prompts, at the chosen orchestrators
};

// One model's.
struct ModelFleet {
  std::string model;  // empty: there is no other, and it has no label
  FleetFigures figures;
};

// In Prometheus' text format.
std::string FleetsText(const std::vector<ModelFleet>& fleets);

class Fleet {
 public:
  // `authorization`: of the gateway itself, for KvEvents; may be empty.
  explicit Fleet(std::string authorization) : authorization_(std::move(authorization)) {}
  // REQUIRES: Shutdown() was called, or nothing was added.
  ~Fleet();

  // `name`: as ReplicaChooser::Add has it.
  ReplicaId Add(const std::string& name, std::shared_ptr<grpc::Channel> channel);
  void Remove(ReplicaId replica);

  // Chooses for a request, another than `route.lost` where there is one for which `may` is true.
  // `sharer` tells callers apart that may not use each other's cache. -1: none may.
  ReplicaId Choose(const v1::GenerateRequest& request, PrefixKey sharer, Route& route,
                   const std::function<bool(ReplicaId)>& may);
  // The call that a route was chosen for has begun to answer; has failed before that.
  void OnStarted(const Route& route, const v1::Started& started);
  void OnLost(Route& route);

  // To be called several times a second: listens to orchestrators that it does not hear, and frees
  // what is known of those that are gone.
  void Tick();
  // Ends all calls, and waits for their ends.
  void Shutdown();

  FleetFigures figures();

 private:
  class Listening;
  struct Member {
    std::string name;
    std::shared_ptr<grpc::Channel> channel;
    std::shared_ptr<Listening> listening;  // null while it is not heard
    bool is_heard = false;                 // something has come
    SteadyTime listen_again;
    int32_t block_size = 16;
  };

  void OnEvents(ReplicaId replica, const Listening* from, const v1::KvEventsResponse& events);
  void OnSilence(ReplicaId replica, const Listening* from, const absl::Status& status);

  const std::string authorization_;

  absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  ReplicaChooser chooser_ ABSL_GUARDED_BY(mutex_);
  std::map<ReplicaId, Member> members_ ABSL_GUARDED_BY(mutex_);
  int num_calls_ ABSL_GUARDED_BY(mutex_) = 0;
  // What orchestrators have said of the scopes of callers, by sharer.
  absl::flat_hash_map<PrefixKey, PrefixKey> scopes_ ABSL_GUARDED_BY(mutex_);
  FleetFigures figures_ ABSL_GUARDED_BY(mutex_);  // but for the first three
};

}  // namespace sluice::gateway
