#include "orchestrator/kv_events/kv_event_publisher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "orchestrator/kv_cache/kv_cache.h"

namespace sluice {
namespace {

constexpr int kBlockSize = 4;
const PrefixKey kModel = ModelKey({.configuration = "test", .block_size = kBlockSize});

SteadyTime At(double seconds) { return SteadyTime::FromStart(absl::Seconds(seconds)); }

// Knows what it was told, and holds it against the rules of the stream.
class Listener final : public KvSubscriber {
 public:
  bool OnBatch(const std::shared_ptr<const KvEventBatch>& batch) override {
    ++num_batches;
    if (batch->cache.has_value()) {
      blocks.clear();
      prompts.clear();
      cache = *batch->cache;
    }
    for (size_t i = 0; i < batch->stored.size(); ++i) {
      EXPECT_TRUE(blocks.insert(batch->stored[i]).second) << "stored twice";
      if (batch->indexes[i] > 0) {
        EXPECT_TRUE(blocks.contains(batch->parents[i])) << "a block before the one it follows";
      }
    }
    for (const PrefixKey key : batch->removed) EXPECT_EQ(blocks.erase(key), 1u) << "was not held";
    for (const PrefixKey key : batch->removed_prompts) EXPECT_EQ(prompts.erase(key), 1u);
    for (size_t i = 0; i < batch->prompts.size(); ++i) {
      prompts[batch->prompts[i]] = batch->prompt_positions[i];
    }
    has_snapshot = has_snapshot || batch->snapshot_end;
    if (batch->load.has_value()) loads.push_back(*batch->load);
    return !is_full;
  }

  std::set<PrefixKey> blocks;
  std::map<PrefixKey, int32_t> prompts;
  std::vector<EngineLoad> loads;
  KvCacheDescription cache;
  bool has_snapshot = false;
  bool is_full = false;
  int num_batches = 0;
};

class KvEventPublisherTest : public ::testing::Test {
 protected:
  void MakeCache(int num_blocks) {
    cache_.emplace(KvCacheOptions{.num_blocks = num_blocks,
                                  .block_size = kBlockSize,
                                  .model_key = kModel,
                                  .recorder = &publisher_});
  }
  PrefixKey Domain(const std::string& salt = "") const { return DomainKey(kModel, salt, "", 0); }
  // Computes a sequence of these tokens, and ends it.
  void Serve(SequenceId sequence, const std::vector<TokenId>& tokens,
             const std::string& salt = "") {
    const int found =
        cache_->Begin(sequence, {.salt = salt}, tokens, static_cast<int>(tokens.size()) - 1);
    ASSERT_TRUE(cache_->Reserve(sequence, found, static_cast<int32_t>(tokens.size())).ok());
    cache_->MarkComputed(sequence, tokens);
    cache_->Release(sequence);
  }
  void Publish() { publisher_.Advance(At(now_ += 1), {}); }

  KvEventPublisher publisher_;
  std::optional<KvCache> cache_;
  double now_ = 0;
};

std::vector<TokenId> Tokens(int count, TokenId first = 100) {
  std::vector<TokenId> tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

PromptKeys KeysOfTokens(const std::vector<TokenId>& tokens) {
  PromptKeyBuilder builder("ids", "");
  builder.Add(tokens);
  return builder.Finish();
}

TEST_F(KvEventPublisherTest, SendsASnapshotAndThenWhatChanges) {
  MakeCache(4);
  Serve(1, Tokens(10));
  const auto listener = std::make_shared<Listener>();
  publisher_.Subscribe(listener);
  EXPECT_TRUE(listener->has_snapshot);
  EXPECT_EQ(listener->cache.model_key, kModel);
  EXPECT_EQ(listener->cache.block_size, kBlockSize);
  EXPECT_EQ(listener->cache.num_blocks, 4);
  const std::vector<PrefixKey> first = publisher_.ChainOf(Domain(), Tokens(8));
  EXPECT_THAT(listener->blocks, ::testing::UnorderedElementsAre(first[1], first[2]));
  Serve(2, Tokens(16, 500));  // takes all blocks
  Publish();
  const std::vector<PrefixKey> second = publisher_.ChainOf(Domain(), Tokens(16, 500));
  EXPECT_THAT(listener->blocks,
              ::testing::UnorderedElementsAre(second[1], second[2], second[3], second[4]));
}

TEST_F(KvEventPublisherTest, SaysNothingOfWhatCameAndWent) {
  MakeCache(2);
  Serve(1, Tokens(8));
  const auto listener = std::make_shared<Listener>();
  publisher_.Subscribe(listener);
  const int before = listener->num_batches;
  Serve(2, Tokens(8, 500));
  Serve(3, Tokens(8));
  publisher_.Advance(At(now_ += 1), {});
  EXPECT_EQ(listener->num_batches, before + 1);
  EXPECT_EQ(listener->blocks.size(), 2u);
}

TEST_F(KvEventPublisherTest, SaltsAreApart) {
  MakeCache(8);
  Serve(1, Tokens(4), "a");
  Serve(2, Tokens(4), "b");
  const auto listener = std::make_shared<Listener>();
  publisher_.Subscribe(listener);
  EXPECT_THAT(listener->blocks, ::testing::UnorderedElementsAre(BlockKey(Domain("a"), Tokens(4)),
                                                                BlockKey(Domain("b"), Tokens(4))));
}

TEST_F(KvEventPublisherTest, ANewCacheHoldsNothing) {
  MakeCache(4);
  Serve(1, Tokens(8));
  const auto listener = std::make_shared<Listener>();
  publisher_.Subscribe(listener);
  EXPECT_FALSE(listener->blocks.empty());
  MakeCache(6);
  Publish();
  EXPECT_TRUE(listener->blocks.empty());
  EXPECT_EQ(listener->cache.num_blocks, 6);
  cache_->Resize(3, 0);
  Publish();
  EXPECT_EQ(listener->cache.num_blocks, 3);
}

TEST_F(KvEventPublisherTest, GathersForTenMilliseconds) {
  MakeCache(8);
  const auto listener = std::make_shared<Listener>();
  publisher_.Subscribe(listener);
  Publish();
  EXPECT_EQ(publisher_.NextWake(), SteadyTime::InfiniteFuture());
  const int before = listener->num_batches;
  const SteadyTime last = At(now_);
  Serve(1, Tokens(4));
  publisher_.Advance(last + absl::Milliseconds(11), {});
  Serve(2, Tokens(4, 300));
  publisher_.Advance(last + absl::Milliseconds(12), {});
  EXPECT_EQ(listener->num_batches, before + 1);
  EXPECT_EQ(publisher_.NextWake(), last + absl::Milliseconds(21));
  publisher_.Advance(last + absl::Milliseconds(21), {});
  EXPECT_EQ(listener->num_batches, before + 2);
  EXPECT_EQ(listener->blocks.size(), 2u);
}

TEST_F(KvEventPublisherTest, SendsTheLoadWhenItChangesTwentyTimesASecond) {
  MakeCache(8);
  const auto listener = std::make_shared<Listener>();
  publisher_.Subscribe(listener);
  listener->loads.clear();
  for (int ms = 0; ms < 1000; ++ms) {
    publisher_.Advance(At(1) + absl::Milliseconds(ms), {.num_waiting_tokens = ms});
  }
  EXPECT_EQ(listener->loads.size(), 20u);
  listener->loads.clear();
  publisher_.Advance(At(3), {.num_waiting_tokens = 7});
  for (int i = 0; i < 10; ++i) publisher_.Advance(At(4 + i), {.num_waiting_tokens = 7});
  EXPECT_EQ(listener->loads.size(), 1u);
}

TEST_F(KvEventPublisherTest, CallsAFullSubscriberNoMore) {
  MakeCache(8);
  const auto slow = std::make_shared<Listener>(), other = std::make_shared<Listener>();
  publisher_.Subscribe(slow);
  publisher_.Subscribe(other);
  slow->is_full = true;
  Serve(1, Tokens(4));
  Publish();
  const int before = slow->num_batches;
  Serve(2, Tokens(4, 300));
  Publish();
  EXPECT_EQ(slow->num_batches, before);
  EXPECT_EQ(other->blocks.size(), 2u);
  publisher_.Unsubscribe(other.get());
  EXPECT_EQ(publisher_.num_subscribers(), 0u);
}

TEST_F(KvEventPublisherTest, PublishesAPromptsBeginningsWhileTheirBlocksAreHeld) {
  MakeCache(64);
  const auto listener = std::make_shared<Listener>();
  publisher_.Subscribe(listener);
  const std::vector<TokenId> tokens = Tokens(200);  // 800 bytes: keys at 64, 128 and 192 tokens
  const PromptKeys keys = KeysOfTokens(tokens);
  ASSERT_EQ(keys.keys.size(), 3u);
  publisher_.Expect(Domain(), tokens, keys, /*scope=*/9);
  Publish();
  EXPECT_TRUE(listener->prompts.empty());  // nothing is computed yet
  Serve(1, tokens);
  Publish();
  std::map<PrefixKey, int32_t> all;
  for (int i = 0; i < 3; ++i) all[KeyInScope(keys.keys[i], 9)] = 64 * (i + 1);
  EXPECT_EQ(listener->prompts, all);
  const auto late = std::make_shared<Listener>();
  publisher_.Subscribe(late);
  EXPECT_EQ(late->prompts, all);
  Serve(2, Tokens(120, 5000));  // evicts the end of the first
  Publish();
  EXPECT_EQ(listener->prompts, (std::map<PrefixKey, int32_t>{{KeyInScope(keys.keys[0], 9), 64},
                                                             {KeyInScope(keys.keys[1], 9), 128}}));
  EXPECT_EQ(late->prompts, listener->prompts);
}

TEST_F(KvEventPublisherTest, CorrectsWhereABeginningEnds) {
  MakeCache(256);
  const auto listener = std::make_shared<Listener>();
  publisher_.Subscribe(listener);
  // A text of which 512 bytes are the same, and became 40 tokens, where bytes alone suggest 100.
  PromptKeys keys = {.keys = {11, 12, 13, 14}, .num_bytes = 1024};
  std::vector<TokenId> first = Tokens(40), second = Tokens(40);
  for (int i = 0; i < 160; ++i) {
    first.push_back(1000 + i);
    second.push_back(2000 + i);
  }
  publisher_.Expect(Domain(), first, keys, 9);
  Serve(1, first);
  Publish();
  EXPECT_EQ(listener->prompts[KeyInScope(12, 9)], 100);
  keys.keys = {11, 12, 23, 24};
  publisher_.Expect(Domain(), second, keys, 9);
  Serve(2, second);
  Publish();
  EXPECT_EQ(listener->prompts[KeyInScope(11, 9)], 40);
  EXPECT_EQ(listener->prompts[KeyInScope(12, 9)], 40);
  EXPECT_EQ(listener->prompts[KeyInScope(14, 9)], 200);
  EXPECT_EQ(listener->prompts[KeyInScope(24, 9)], 200);
  // It stays so.
  keys.keys = {11, 12, 13, 14};
  publisher_.Expect(Domain(), first, keys, 9);
  Publish();
  EXPECT_EQ(listener->prompts[KeyInScope(12, 9)], 40);
}

// Sequences begin, grow and end at random in a small cache; what each of two subscribers, one of them
// late, was told is what the cache finds.
TEST_F(KvEventPublisherTest, ToldWhatTheCacheHoldsWhateverHappens) {
  std::mt19937 random(7);
  MakeCache(12);
  const auto listener = std::make_shared<Listener>();
  publisher_.Subscribe(listener);
  std::shared_ptr<Listener> late;
  const auto prompt_of = [](int number) {
    std::vector<TokenId> tokens = Tokens(8, 100 + 10 * (number % 2));
    for (int i = 0; i < 4 * (number % 5); ++i) tokens.push_back(number * 100 + i);
    return tokens;
  };
  std::map<SequenceId, std::vector<TokenId>> alive;
  SequenceId last = 0;
  for (int operation = 0; operation < 3000; ++operation) {
    if (alive.size() < 3 && random() % 2 == 0) {
      const std::vector<TokenId> tokens = prompt_of(static_cast<int>(random() % 10));
      const SequenceId id = ++last;
      const int found = cache_->Begin(id, {}, tokens, static_cast<int>(tokens.size()) - 1);
      if (!cache_->Reserve(id, found, static_cast<int32_t>(tokens.size())).ok()) {
        cache_->Release(id);
        continue;
      }
      cache_->MarkComputed(id, tokens);
      alive[id] = tokens;
    } else if (!alive.empty()) {
      const auto which = std::next(alive.begin(), static_cast<int>(random() % alive.size()));
      cache_->Release(which->first);
      alive.erase(which);
    }
    if (random() % 3 == 0) Publish();
    if (operation == 1500) publisher_.Subscribe(late = std::make_shared<Listener>());
    if (random() % 50 != 0) continue;
    Publish();
    std::set<PrefixKey> held;
    for (int number = 0; number < 10; ++number) {
      const std::vector<TokenId> tokens = prompt_of(number);
      const std::vector<PrefixKey> chain = publisher_.ChainOf(Domain(), tokens);
      const int known = cache_->CountKnown({}, tokens) / kBlockSize;
      held.insert(chain.begin() + 1, chain.begin() + 1 + known);
    }
    ASSERT_EQ(listener->blocks, held) << operation;
    if (late != nullptr) {
      ASSERT_EQ(late->blocks, held);
    }
  }
}

}  // namespace
}  // namespace sluice
