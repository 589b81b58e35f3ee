// Several models on this host, each with processes of its own. The group starts a model's processes when a
// request uses the model, ends them when no request has used it for a given time, and keeps the memory of
// all running models below a limit. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "clients/cli/process_group.h"
#include "services/common/steady_time.h"
#include "services/process/stop_signal.h"

namespace sluice {

struct GroupedModel {
  std::string name;
  std::string endpoint;       // of its orchestrator, for the gateway
  uint64_t memory_bytes = 0;  // that it takes while it is awake
  // InfiniteDuration(): never.
  absl::Duration sleep_after = absl::InfiniteDuration();
  bool asleep = false;  // at first
  ProcessGroupOptions processes;

  bool sleeps() const { return sleep_after != absl::InfiniteDuration(); }
};

// A request that uses a model, as the group sees it.
class ModelUser {
 public:
  virtual ~ModelUser() = default;
  // One of the two is called, once, from any thread: the model serves, or can't.
  virtual void Serve() = 0;
  virtual void Refuse(const absl::Status& why) = 0;
};

class ModelGroup {
 public:
  struct Entry {
    std::string name;
    std::string endpoint;
    bool sleeps;
    ProcessGroup::State state;
    absl::Status last_end;  // OK where it ended because it was to
  };

  // At most `memory_bytes` are taken by models awake at a time; users wait for room that others use for
  // `room_patience`. `on_change` is called after each change of a model's state, from any thread. Starts those
  // that are awake at first.
  // REQUIRES: names are unique; the models awake at first fit together.
  ModelGroup(std::vector<GroupedModel> models, uint64_t memory_bytes,
             std::function<void()> on_change, absl::Duration room_patience = absl::Seconds(10));
  ModelGroup(const ModelGroup&) = delete;
  ModelGroup& operator=(const ModelGroup&) = delete;
  // Ends all processes. REQUIRES: every user has left.
  ~ModelGroup();

  // In their order.
  std::vector<Entry> List() const;

  // Keeps the model awake until the user leaves. Starts its processes where they do not run; where its memory
  // does not fit, the group first ends models that may sleep and that no request uses. Refuses the user with
  // NOT_FOUND, with RESOURCE_EXHAUSTED where models in use have left no room for `room_patience`, or with
  // UNAVAILABLE where the processes could not be started.
  void Enter(const std::string& name, std::shared_ptr<ModelUser> user);
  // No effect on one that is not there any more.
  void Leave(const ModelUser* user);

 private:
  struct Model {
    GroupedModel given;
    std::unique_ptr<ProcessGroup> processes;
    bool is_tried = false;                       // started for those who wait, and not ready since
    std::optional<SteadyTime> lacks_room_since;  // for those who wait
    std::list<std::shared_ptr<ModelUser>> waiting;
    std::list<std::shared_ptr<ModelUser>> using_it;
    SteadyTime last_use;

    bool is_idle() const { return waiting.empty() && using_it.empty(); }
  };
  // Calls of ModelUser::Serve() and Refuse(), to be made once mutex_ is released.
  using Answers = std::vector<std::function<void()>>;

  void OnChange();
  void Advance(Answers& answers) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AdvanceModel(Model& model, Answers& answers) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether the model may start now; else those that could make room for it are ending, or `lack` says what
  // is used.
  bool MakeRoom(const Model& model, absl::Status& lack) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static void RefuseAll(Model& model, const absl::Status& why, Answers& answers);
  void SendToSleep() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Looks at the clock: who is to sleep, and who has waited for too long.
  void Look();

  const uint64_t memory_bytes_;
  const absl::Duration room_patience_;
  const std::function<void()> on_change_;
  mutable absl::Mutex mutex_;
  std::vector<std::unique_ptr<Model>> models_ ABSL_GUARDED_BY(mutex_);
  bool is_ready_ ABSL_GUARDED_BY(mutex_) = false;  // all models are there
  StopSignal stop_;
  std::thread sleeper_;
};

}  // namespace sluice
