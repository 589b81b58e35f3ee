// What a KV cache holds, published to subscribers: first all of it, then what changes, in batches; with
// the keys of prompts (services/routing/prompt_keys.h) whose beginnings are held, and the load.
//
// Takes time in what changes, not in what is held, but for a new subscriber. Belongs to the engine's
// loop, and is told the time.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "orchestrator/kv_cache/kv_recorder.h"
#include "orchestrator/kv_cache/types.h"
#include "services/common/prefix_key.h"
#include "services/common/steady_time.h"
#include "services/routing/prompt_keys.h"

namespace sluice {

struct KvCacheDescription {
  PrefixKey model_key = 0;
  int32_t block_size = 0;
  int32_t num_blocks = 0;
};

// As KvLoad of protos/sluice/v1/kv_events.proto.
struct EngineLoad {
  bool serving = false;
  int32_t num_waiting_requests = 0;
  int32_t num_running_requests = 0;
  int64_t num_waiting_tokens = 0;
  int64_t num_held_tokens = 0;
  int32_t num_available_blocks = 0;

  friend bool operator==(const EngineLoad&, const EngineLoad&) = default;
};

// Means over the last steps.
struct StepMeans {
  absl::Duration time;
  double positions = 0;
};

// As KvEventsResponse; lists that belong together are equally long.
struct KvEventBatch {
  std::optional<KvCacheDescription> cache;  // it is new: what was published before holds no more
  bool snapshot_end = false;
  std::vector<PrefixKey> stored, parents;
  std::vector<int32_t> indexes;
  std::vector<PrefixKey> removed;
  std::vector<PrefixKey> prompts;
  std::vector<int32_t> prompt_positions;
  std::vector<PrefixKey> removed_prompts;
  std::optional<EngineLoad> load;
  StepMeans steps;  // with `load`
};

// Called on the engine's loop; must not block.
class KvSubscriber {
 public:
  virtual ~KvSubscriber() = default;
  // Batches of a snapshot end with one that has snapshot_end. False: it is full, and is called no more.
  virtual bool OnBatch(const std::shared_ptr<const KvEventBatch>& batch) = 0;
};

class KvEventPublisher final : public KvRecorder {
 public:
  void OnNewCache(PrefixKey model, int32_t block_size, int32_t num_blocks) override;
  void OnStored(PrefixKey key, PrefixKey parent, int32_t index) override;
  void OnRemoved(PrefixKey key) override;

  // A prompt of these tokens will be computed in a domain, `keys` being those of what it was made of,
  // in `scope`. Its beginnings are published while the blocks are held that they end in. Which block
  // that is, is estimated by bytes; what two prompts with the same key do not have in common is
  // corrected. REQUIRES: a cache has begun.
  void Expect(PrefixKey domain, absl::Span<const TokenId> prompt, const PromptKeys& keys,
              PrefixKey scope);

  // A step was executed.
  void OnStep(absl::Duration time, int num_positions);
  // Publishes what has changed, if it is due.
  void Advance(SteadyTime now, const EngineLoad& load);
  // When Advance has something to publish even if nothing happens.
  SteadyTime NextWake() const;

  // Sends what is held now, and from then on what changes.
  void Subscribe(std::shared_ptr<KvSubscriber> subscriber);
  void Unsubscribe(const KvSubscriber* subscriber);
  size_t num_subscribers() const { return subscribers_.size(); }

  // The first key is that of the domain, the others those of the full blocks of `tokens`.
  std::vector<PrefixKey> ChainOf(PrefixKey domain, absl::Span<const TokenId> tokens) const;

 private:
  struct Mark {
    PrefixKey prompt = 0;
    int32_t num_positions = 0;
    bool published = false;
  };
  // A block that is held, or that a prompt is expected to fill.
  struct Entry {
    PrefixKey parent = 0;
    int32_t index = 0;
    int32_t count = 0;       // blocks that are held
    bool published = false;  // as subscribers know
    bool changed = false;    // in changed_
    std::vector<Mark> marks;
  };

  void NoteChange(PrefixKey key, Entry& entry);
  void Unmark(PrefixKey block, PrefixKey prompt);
  void DropMarks(Entry& entry);
  // The index of the last block that both this one and `chain` come after; -1: none.
  int32_t CommonWith(PrefixKey block, absl::Span<const PrefixKey> chain) const;
  void ForgetPending();
  KvEventBatch TakeBatch();
  void Publish(KvEventBatch batch);
  bool SendSnapshot(KvSubscriber& subscriber) const;

  KvCacheDescription cache_;
  bool is_new_ = false;  // and subscribers do not know
  absl::flat_hash_map<PrefixKey, Entry> entries_;
  absl::flat_hash_map<PrefixKey, PrefixKey> blocks_of_prompts_;  // by the prompt's key
  std::deque<PrefixKey> pending_;  // blocks with marks that were not held when they were marked
  std::vector<PrefixKey> changed_;
  std::vector<PrefixKey> removed_prompts_;
  std::vector<std::shared_ptr<KvSubscriber>> subscribers_;
  EngineLoad load_;       // as it is
  EngineLoad load_sent_;  // as subscribers know
  StepMeans steps_;
  SteadyTime last_batch_;
  SteadyTime last_load_;
};

}  // namespace sluice
