#include "orchestrator/kv_events/kv_event_publisher.h"

#include <algorithm>
#include <utility>

#include "kernels/check.h"

namespace sluice {
namespace {

constexpr absl::Duration kBetweenBatches = absl::Milliseconds(10);
constexpr absl::Duration kBetweenLoads = absl::Milliseconds(50);
// Keys in one message of a snapshot.
constexpr size_t kSlice = 4096;
// Beginnings of prompts that end in one block: a few, unless someone looks for many.
constexpr size_t kMostMarks = 8;
// Blocks that prompts were expected to fill.
constexpr size_t kMostPending = size_t{1} << 16;
// Weight of the latest step in the means.
constexpr double kLatest = 0.1;

}  // namespace

// ---- What the cache records ----

void KvEventPublisher::OnNewCache(PrefixKey model, int32_t block_size, int32_t num_blocks) {
  cache_ = {.model_key = model, .block_size = block_size, .num_blocks = num_blocks};
  is_new_ = true;
  entries_.clear();
  blocks_of_prompts_.clear();
  pending_.clear();
  changed_.clear();
  removed_prompts_.clear();
}

void KvEventPublisher::NoteChange(PrefixKey key, Entry& entry) {
  if (!std::exchange(entry.changed, true)) changed_.push_back(key);
}

void KvEventPublisher::OnStored(PrefixKey key, PrefixKey parent, int32_t index) {
  Entry& entry = entries_[key];
  entry.parent = parent;
  entry.index = index;
  if (++entry.count == 1) NoteChange(key, entry);
}

void KvEventPublisher::OnRemoved(PrefixKey key) {
  const auto found = entries_.find(key);
  SLUICE_CHECK(found != entries_.end() && found->second.count > 0);
  if (--found->second.count == 0) NoteChange(key, found->second);
}

// ---- Prompts ----

std::vector<PrefixKey> KvEventPublisher::ChainOf(PrefixKey domain,
                                                 absl::Span<const TokenId> tokens) const {
  std::vector<PrefixKey> chain = {domain};
  const auto size = static_cast<size_t>(cache_.block_size);
  chain.reserve(tokens.size() / size + 1);
  for (size_t end = size; end <= tokens.size(); end += size) {
    chain.push_back(BlockKey(chain.back(), tokens.subspan(end - size, size)));
  }
  return chain;
}

void KvEventPublisher::Expect(PrefixKey domain, absl::Span<const TokenId> prompt,
                              const PromptKeys& keys, PrefixKey scope) {
  SLUICE_CHECK(cache_.block_size > 0);
  if (keys.keys.empty()) return;
  const std::vector<PrefixKey> chain = ChainOf(domain, prompt);
  for (size_t i = 0; i < keys.keys.size(); ++i) {
    const PrefixKey key = KeyInScope(keys.keys[i], scope);
    const auto positions = static_cast<int64_t>(static_cast<double>(prompt.size()) *
                                                static_cast<double>(BytesOfKey(i)) /
                                                static_cast<double>(keys.num_bytes));
    auto num_blocks = static_cast<int32_t>(positions / cache_.block_size);
    if (const auto known = blocks_of_prompts_.find(key); known != blocks_of_prompts_.end()) {
      const PrefixKey block = known->second;
      const Entry& entry = entries_.at(block);
      const auto in_chain = static_cast<size_t>(entry.index) + 1;
      if (in_chain < chain.size() && chain[in_chain] == block) continue;
      num_blocks = std::min(CommonWith(block, chain) + 1, num_blocks);
      Unmark(block, key);
    }
    if (num_blocks <= 0) continue;
    const PrefixKey block = chain[static_cast<size_t>(num_blocks)];
    const auto [found, is_new] = entries_.try_emplace(block);
    Entry& entry = found->second;
    if (is_new) {
      entry.parent = chain[static_cast<size_t>(num_blocks) - 1];
      entry.index = num_blocks - 1;
    }
    if (entry.marks.size() >= kMostMarks) Unmark(block, entry.marks.front().prompt);
    entry.marks.push_back({.prompt = key, .num_positions = num_blocks * cache_.block_size});
    blocks_of_prompts_[key] = block;
    if (entry.count > 0) {
      NoteChange(block, entry);
    } else {
      pending_.push_back(block);
    }
  }
  ForgetPending();
}

int32_t KvEventPublisher::CommonWith(PrefixKey block, absl::Span<const PrefixKey> chain) const {
  for (auto it = entries_.find(block); it != entries_.end(); it = entries_.find(block)) {
    const auto in_chain = static_cast<size_t>(it->second.index) + 1;
    if (in_chain < chain.size() && chain[in_chain] == block) return it->second.index;
    block = it->second.parent;
  }
  return -1;
}

void KvEventPublisher::Unmark(PrefixKey block, PrefixKey prompt) {
  blocks_of_prompts_.erase(prompt);
  const auto found = entries_.find(block);
  if (found == entries_.end()) return;
  std::vector<Mark>& marks = found->second.marks;
  const auto mark = std::find_if(marks.begin(), marks.end(),
                                 [prompt](const Mark& each) { return each.prompt == prompt; });
  if (mark == marks.end()) return;
  if (mark->published) removed_prompts_.push_back(prompt);
  marks.erase(mark);
}

void KvEventPublisher::DropMarks(Entry& entry) {
  for (const Mark& mark : entry.marks) {
    if (mark.published) removed_prompts_.push_back(mark.prompt);
    blocks_of_prompts_.erase(mark.prompt);
  }
  entry.marks.clear();
}

void KvEventPublisher::ForgetPending() {
  while (pending_.size() > kMostPending) {
    const auto found = entries_.find(pending_.front());
    pending_.pop_front();
    if (found == entries_.end() || found->second.count > 0 || found->second.published) continue;
    DropMarks(found->second);
    // One that is in changed_ is erased there.
    if (!found->second.changed) entries_.erase(found);
  }
}

// ---- Batches ----

void KvEventPublisher::OnStep(absl::Duration time, int num_positions) {
  const double weight = steps_.positions == 0 ? 1 : kLatest;
  steps_.time += weight * (time - steps_.time);
  steps_.positions += weight * (num_positions - steps_.positions);
}

KvEventBatch KvEventPublisher::TakeBatch() {
  KvEventBatch batch;
  if (std::exchange(is_new_, false)) batch.cache = cache_;
  for (const PrefixKey key : std::exchange(changed_, {})) {
    const auto found = entries_.find(key);
    if (found == entries_.end()) continue;
    Entry& entry = found->second;
    entry.changed = false;
    if (entry.count == 0) {
      if (std::exchange(entry.published, false)) {
        batch.removed.push_back(key);
        DropMarks(entry);
      }
      if (entry.marks.empty()) {
        entries_.erase(found);
      } else {
        pending_.push_back(key);
      }
      continue;
    }
    if (!std::exchange(entry.published, true)) {
      batch.stored.push_back(key);
      batch.parents.push_back(entry.parent);
      batch.indexes.push_back(entry.index);
    }
    for (Mark& mark : entry.marks) {
      if (std::exchange(mark.published, true)) continue;
      batch.prompts.push_back(mark.prompt);
      batch.prompt_positions.push_back(mark.num_positions);
    }
  }
  batch.removed_prompts = std::exchange(removed_prompts_, {});
  // A prompt that was removed and is held again, otherwise, is held.
  if (!batch.removed_prompts.empty()) {
    std::erase_if(batch.removed_prompts, [this](PrefixKey prompt) {
      const auto block = blocks_of_prompts_.find(prompt);
      return block != blocks_of_prompts_.end() && entries_.at(block->second).published;
    });
  }
  return batch;
}

void KvEventPublisher::Advance(SteadyTime now, const EngineLoad& load) {
  load_ = load;
  const bool has_changes = is_new_ || !changed_.empty() || !removed_prompts_.empty();
  const bool batch_is_due = has_changes && now - last_batch_ >= kBetweenBatches;
  const bool load_is_due = !(load_ == load_sent_) && now - last_load_ >= kBetweenLoads;
  if (!batch_is_due && !load_is_due) return;
  KvEventBatch batch = TakeBatch();
  last_batch_ = now;
  if (load_is_due) {
    batch.load = load_sent_ = load_;
    batch.steps = steps_;
    last_load_ = now;
  }
  Publish(std::move(batch));
}

SteadyTime KvEventPublisher::NextWake() const {
  SteadyTime wake = SteadyTime::InfiniteFuture();
  if (subscribers_.empty()) return wake;
  if (is_new_ || !changed_.empty() || !removed_prompts_.empty()) {
    wake = last_batch_ + kBetweenBatches;
  }
  if (!(load_ == load_sent_)) wake = std::min(wake, last_load_ + kBetweenLoads);
  return wake;
}

void KvEventPublisher::Publish(KvEventBatch batch) {
  if (subscribers_.empty()) return;
  const auto shared = std::make_shared<const KvEventBatch>(std::move(batch));
  std::erase_if(subscribers_, [&shared](const std::shared_ptr<KvSubscriber>& subscriber) {
    return !subscriber->OnBatch(shared);
  });
}

// ---- Subscribers ----

void KvEventPublisher::Subscribe(std::shared_ptr<KvSubscriber> subscriber) {
  Publish(TakeBatch());  // so that all know the same
  if (SendSnapshot(*subscriber)) subscribers_.push_back(std::move(subscriber));
}

void KvEventPublisher::Unsubscribe(const KvSubscriber* subscriber) {
  std::erase_if(subscribers_, [subscriber](const std::shared_ptr<KvSubscriber>& each) {
    return each.get() == subscriber;
  });
}

bool KvEventPublisher::SendSnapshot(KvSubscriber& subscriber) const {
  std::vector<const std::pair<const PrefixKey, Entry>*> held;
  for (const auto& each : entries_) {
    if (each.second.published) held.push_back(&each);
  }
  // Parents before children, and the same order everywhere.
  std::sort(held.begin(), held.end(), [](const auto* a, const auto* b) {
    return a->second.index != b->second.index ? a->second.index < b->second.index
                                              : a->first < b->first;
  });
  auto batch = std::make_shared<KvEventBatch>();
  batch->cache = cache_;
  for (const auto* each : held) {
    const Entry& entry = each->second;
    batch->stored.push_back(each->first);
    batch->parents.push_back(entry.parent);
    batch->indexes.push_back(entry.index);
    for (const Mark& mark : entry.marks) {
      if (!mark.published) continue;
      batch->prompts.push_back(mark.prompt);
      batch->prompt_positions.push_back(mark.num_positions);
    }
    if (batch->stored.size() < kSlice) continue;
    if (!subscriber.OnBatch(std::exchange(batch, std::make_shared<KvEventBatch>()))) return false;
  }
  batch->snapshot_end = true;
  batch->load = load_;
  batch->steps = steps_;
  return subscriber.OnBatch(batch);
}

}  // namespace sluice
