#include "services/routing/replica_chooser.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

constexpr PrefixKey kScope = 77;

PromptKeys Prompt(const std::string& text) {
  PromptKeyBuilder builder("text", "");
  builder.Add(text);
  return builder.Finish();
}

std::string Text(char letter, size_t length) { return std::string(length, letter); }

// Says that `replica` holds the whole prompt, with the tokens that the chooser supposes.
void Hold(ReplicaChooser& chooser, ReplicaId replica, const PromptKeys& prompt,
          PrefixKey scope = kScope) {
  for (size_t i = 0; i < prompt.keys.size(); ++i) {
    const auto positions = static_cast<int32_t>(BytesOfKey(i) / 4);
    chooser.Stored(replica, {KeyInScope(prompt.keys[i], scope)}, {positions});
  }
}

class ReplicaChooserTest : public ::testing::Test {
 protected:
  ReplicaChooserTest() {
    for (int i = 0; i < 4; ++i) {
      ids_.push_back(chooser_.Add(absl::StrCat("10.0.0.", i, ":8700")));
      chooser_.SetLoad(ids_.back(), {});
    }
  }
  ReplicaId Choose(const PromptKeys& prompt, PrefixKey scope = kScope) {
    const ReplicaChoice choice = chooser_.Choose(prompt, scope, now_);
    for (const ReplicaId id : ids_) {  // reports that count what was sent
      chooser_.SetLoad(id, loads_[id]);
      chooser_.SetLoad(id, loads_[id]);
    }
    return choice.replica;
  }

  ReplicaChooser chooser_;
  std::vector<ReplicaId> ids_;
  std::map<ReplicaId, ReplicaLoad> loads_;
  double now_ = 0;
};

TEST_F(ReplicaChooserTest, TakesTheLongestKnownPrefix) {
  const PromptKeys whole = Prompt(Text('a', 8000)), half = Prompt(Text('a', 4000));
  for (const ReplicaId id : ids_) {
    ReplicaChooser other;
    for (int i = 0; i < 4; ++i) other.Add(absl::StrCat(i));
    Hold(other, (id + 1) % 4, half);
    Hold(other, id, whole);
    const ReplicaChoice choice = other.Choose(whole, kScope, 0);
    EXPECT_EQ(choice.replica, id);
    EXPECT_EQ(choice.known_tokens, 7936 / 4);
    EXPECT_EQ(other.KnownTokens((id + 1) % 4, whole, kScope), 3840 / 4);
  }
}

TEST_F(ReplicaChooserTest, WeighsWhatIsKnownWithLoad) {
  const PromptKeys prompt = Prompt(Text('a', 8000));
  Hold(chooser_, ids_[2], prompt);
  loads_[ids_[2]].waiting_tokens = 1900;
  EXPECT_EQ(Choose(prompt), ids_[2]);  // 1,900 wait, and 1,984 are known
  ReplicaChooser busier;
  for (int i = 0; i < 4; ++i) busier.Add(absl::StrCat(i));
  Hold(busier, 2, prompt);
  for (const ReplicaLoad& load :
       {ReplicaLoad{.waiting_tokens = 2400}, ReplicaLoad{.held_tokens = 2400}}) {
    busier.SetLoad(2, load);
    EXPECT_NE(busier.Choose(prompt, kScope, 0).replica, 2);
  }
}

TEST_F(ReplicaChooserTest, AvoidsAReplicaThatHasNoBlocksForThePrompt) {
  const PromptKeys prompt = Prompt(Text('a', 8000));
  const ReplicaId usual = Choose(prompt, 0);
  loads_[usual].available_tokens = 100;
  chooser_.SetLoad(usual, loads_[usual]);
  chooser_.SetLoad(usual, loads_[usual]);
  // Hashing decides among costs that are close; 1,900 lacking are within the prompt's own 2,000.
  loads_[usual].waiting_tokens = 200;
  chooser_.SetLoad(usual, loads_[usual]);
  EXPECT_NE(Choose(prompt, 0), usual);
}

TEST_F(ReplicaChooserTest, HashesTheBeginningWhileNothingIsKnown) {
  std::map<ReplicaId, int> counts;
  for (int i = 0; i < 400; ++i) {
    const std::string beginning = absl::StrCat("system prompt ", i, Text('x', 500));
    const ReplicaId first = Choose(Prompt(beginning + "one"), 0);
    ++counts[first];
    // The same beginning, another scope and end: the same replica, here and in another chooser.
    EXPECT_EQ(Choose(Prompt(beginning + "two"), 0), first);
    ReplicaChooser other;
    for (int replica = 3; replica >= 0; --replica)
      other.Add(absl::StrCat("10.0.0.", replica, ":8700"));
    EXPECT_EQ(other.Choose(Prompt(beginning), 0, 0).replica, 3 - first);
  }
  ASSERT_EQ(counts.size(), 4u);
  for (const auto& [replica, count] : counts) EXPECT_GT(count, 60) << replica;
}

TEST_F(ReplicaChooserTest, MovesFewPromptsWhenAReplicaVanishes) {
  std::vector<PromptKeys> prompts;
  std::vector<ReplicaId> before;
  for (int i = 0; i < 200; ++i) {
    prompts.push_back(Prompt(absl::StrCat(i, Text('x', 300))));
    before.push_back(Choose(prompts.back(), 0));
  }
  chooser_.Remove(ids_[1]);
  for (size_t i = 0; i < prompts.size(); ++i) {
    const ReplicaId now = Choose(prompts[i], 0);
    if (before[i] == ids_[1]) {
      EXPECT_NE(now, ids_[1]);
    } else {
      EXPECT_EQ(now, before[i]);
    }
  }
}

TEST_F(ReplicaChooserTest, GivesAVanishedReplicasNumberToOneThatHoldsNothing) {
  const PromptKeys prompt = Prompt(Text('a', 8000));
  Hold(chooser_, ids_[1], prompt);
  chooser_.Remove(ids_[1]);
  EXPECT_EQ(chooser_.KnownTokens(ids_[1], prompt, kScope), 0);
  chooser_.Stored(ids_[1], {1}, {1});  // late news of it
  const ReplicaId next = chooser_.Add("10.0.0.9:8700");
  EXPECT_EQ(chooser_.KnownTokens(next, prompt, kScope), 0);
  while (chooser_.Sweep(7)) {
  }
  EXPECT_EQ(chooser_.num_keys(), 0u);
  Hold(chooser_, next, prompt);
  EXPECT_EQ(chooser_.KnownTokens(next, prompt, kScope), 7936 / 4);
}

TEST_F(ReplicaChooserTest, ForgetsWhatAReplicaNoLongerHolds) {
  const PromptKeys prompt = Prompt(Text('a', 2000));
  Hold(chooser_, ids_[0], prompt);
  Hold(chooser_, ids_[3], prompt);
  std::vector<PrefixKey> tail;
  for (size_t i = 4; i < prompt.keys.size(); ++i)
    tail.push_back(KeyInScope(prompt.keys[i], kScope));
  chooser_.Dropped(ids_[0], tail);
  EXPECT_EQ(chooser_.KnownTokens(ids_[0], prompt, kScope), 256);
  EXPECT_EQ(chooser_.KnownTokens(ids_[3], prompt, kScope), 1792 / 4);
  chooser_.Forget(ids_[3]);
  EXPECT_EQ(chooser_.KnownTokens(ids_[3], prompt, kScope), 0);
  EXPECT_EQ(Choose(prompt), ids_[0]);
}

TEST_F(ReplicaChooserTest, KeepsScopesApart) {
  const PromptKeys prompt = Prompt(Text('a', 8000));
  const ReplicaId usual = Choose(prompt, /*scope=*/5);
  const ReplicaId other = ids_[usual == ids_[0] ? 1 : 0];
  Hold(chooser_, other, prompt, /*scope=*/6);
  EXPECT_EQ(Choose(prompt, /*scope=*/6), other);
  EXPECT_EQ(Choose(prompt, /*scope=*/5), usual);
}

TEST_F(ReplicaChooserTest, ExpectsWhatItSentToBeHeldUntilTheReplicaSaysOtherwise) {
  const PromptKeys prompt = Prompt(Text('a', 8000));
  const ReplicaId first = Choose(prompt);
  loads_[first].waiting_tokens = 1500;
  chooser_.SetLoad(first, loads_[first]);
  // A conversation goes on before the replica has said what it holds.
  const PromptKeys longer = Prompt(Text('a', 8000) + Text('b', 400));
  EXPECT_EQ(chooser_.Choose(longer, kScope, 1).known_tokens, 7936 / 4);
  // What it has not said for long it does not hold.
  EXPECT_EQ(chooser_.Choose(longer, kScope, 200).known_tokens, 0);
}

TEST_F(ReplicaChooserTest, DoesNotLeaveAKnownPrefixForWhatAReportMayHaveMissed) {
  const PromptKeys prompt = Prompt(Text('a', 400));
  Hold(chooser_, ids_[1], prompt);
  loads_[ids_[1]].held_tokens = 100;  // of the request that has just ended
  EXPECT_EQ(Choose(prompt), ids_[1]);
  // A request that came and went between two reports is forgotten all the same.
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(chooser_.Choose(prompt, kScope, 10 + i).replica, ids_[1]);
  }
}

TEST_F(ReplicaChooserTest, SpreadsABurstOfOnePrompt) {
  const PromptKeys prompt = Prompt(Text('a', 8000));
  std::set<ReplicaId> chosen;
  for (int i = 0; i < 16; ++i) {
    const PromptKeys other = Prompt(absl::StrCat(Text('a', 255), i, Text('b', 8000)));
    chosen.insert(chooser_.Choose(other, kScope, 0).replica);
  }
  EXPECT_EQ(chosen.size(), 4u);  // reports have not come yet: what was sent counts
}

TEST_F(ReplicaChooserTest, TakesTurnsWithPromptsThatAreTooShortToKeep) {
  std::map<ReplicaId, int> counts;
  for (int i = 0; i < 40; ++i) ++counts[Choose(Prompt("Hello"))];
  for (const ReplicaId id : ids_) EXPECT_EQ(counts[id], 10);
}

TEST_F(ReplicaChooserTest, TakesWhatServesAndMay) {
  const PromptKeys prompt = Prompt(Text('a', 8000));
  Hold(chooser_, ids_[2], prompt);
  loads_[ids_[2]].serving = false;
  chooser_.SetLoad(ids_[2], loads_[ids_[2]]);
  EXPECT_NE(Choose(prompt), ids_[2]);
  const auto only = [this](ReplicaId id) { return id == ids_[2]; };
  EXPECT_EQ(chooser_.Choose(prompt, kScope, 0, only).replica, ids_[2]);
  EXPECT_EQ(chooser_.Choose(prompt, kScope, 0, [](ReplicaId) { return false; }).replica, -1);
  EXPECT_EQ(ReplicaChooser().Choose(prompt, kScope, 0).replica, -1);
}

TEST(ReplicaChooser, ChargesReplicasThatDoNotReportUntilTheyAnswer) {
  ReplicaChooser chooser;
  chooser.Add("a");
  chooser.Add("b");
  const PromptKeys prompt = Prompt(Text('a', 4000));
  std::vector<ReplicaChoice> choices;
  std::map<ReplicaId, int> counts;
  for (int i = 0; i < 8; ++i) {
    choices.push_back(chooser.Choose(Prompt(absl::StrCat(i, Text('a', 4000))), 0, 0));
    ++counts[choices.back().replica];
  }
  EXPECT_GE(counts[0], 3);  // within one prompt of each other
  EXPECT_GE(counts[1], 3);
  for (const ReplicaChoice& choice : choices) chooser.Begun(choice);
  const ReplicaId usual = chooser.Choose(prompt, 0, 0).replica;
  ReplicaChooser fresh;
  fresh.Add("a");
  fresh.Add("b");
  EXPECT_EQ(usual, fresh.Choose(prompt, 0, 0).replica);
}

TEST(ReplicaChooser, LearnsHowLongTokensAre) {
  ReplicaChooser chooser;
  const ReplicaId id = chooser.Add("a");
  for (int i = 0; i < 2000; ++i) chooser.Learn(8000, 1000);
  EXPECT_NEAR(static_cast<double>(chooser.Choose(Prompt(Text('a', 8000)), 0, 0).assumed_tokens),
              1000, 10);
  EXPECT_EQ(id, 0);
}

TEST(ReplicaChooser, ChoosesAmongMoreReplicasThanABankHas) {
  ReplicaChooser chooser;
  std::vector<ReplicaId> ids;
  for (int i = 0; i < 200; ++i) ids.push_back(chooser.Add(absl::StrCat(i)));
  for (const int holder : {3, 63, 64, 199}) {
    const PromptKeys prompt = Prompt(absl::StrCat(holder, Text('a', 8000)));
    Hold(chooser, ids[holder], prompt);
    EXPECT_EQ(chooser.Choose(prompt, kScope, 0).replica, ids[holder]);
  }
}

}  // namespace
}  // namespace sluice
