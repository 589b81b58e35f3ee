// Constraints compiled beside the steps: what is kept, what is refused, what is forgotten.
#include "services/sampler/constraints/constraint_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "services/sampler/constraints/constrained_text.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int32_t kEnd = 1;

// A token for each letter from a on, one of two, a special one, the end.
v1::ConstraintVocabulary Letters() {
  v1::ConstraintVocabulary vocabulary;
  for (const char* token : {"", "", "a", "b", "c", "ab"}) vocabulary.add_token_bytes(token);
  vocabulary.add_end_token_ids(kEnd);
  return vocabulary;
}

v1::Constraint Regex(const std::string& pattern) {
  v1::Constraint constraint;
  constraint.set_regex(pattern);
  return constraint;
}

struct ConstraintStoreTest : testing::Test {
  ConstraintStoreTest() { store.SetVocabulary(Letters()); }

  ConstraintStore::Result Prepare(const v1::Constraint& constraint) {
    ConstraintStore::Result result;
    absl::Notification done;
    store.Prepare(constraint, [&](const ConstraintStore::Result& prepared) {
      result = prepared;
      done.Notify();
    });
    done.WaitForNotification();
    return result;
  }

  ConstraintStore store{40};
};

std::vector<int32_t> Allowed(ConstrainedText& text, const std::vector<int32_t>& tokens,
                             const std::vector<uint32_t>& within = {}) {
  const auto mask = text.Allowed(tokens, within);
  EXPECT_TRUE(mask.ok()) << mask.status();
  if (!mask.ok()) return {};
  EXPECT_EQ(mask->size(), 2u);  // words of a vocabulary of 40
  std::vector<int32_t> ids;
  for (int32_t id = 0; id < 64; ++id) {
    if (((*mask)[id / 32] >> (id % 32) & 1) != 0) ids.push_back(id);
  }
  return ids;
}

TEST_F(ConstraintStoreTest, CompilesOnceAndSharesIt) {
  const auto first = Prepare(Regex("ab*"));
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(*Prepare(Regex("ab*")), *first);
  EXPECT_EQ(*store.Get(Regex("ab*")), *first);
  EXPECT_NE(*store.Get(Regex("ab")), *first);
  EXPECT_EQ(store.size(), 2u);
}

TEST_F(ConstraintStoreTest, KeepsWhyOneWasRefused) {
  for (int i = 0; i < 2; ++i) {
    const absl::Status refused = Prepare(Regex("a[")).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(refused.message()), HasSubstr("regex: "));
    EXPECT_EQ(Prepare(Regex("(a)\\1")).status().code(), absl::StatusCode::kUnimplemented);
  }
  EXPECT_EQ(store.size(), 2u);
}

TEST_F(ConstraintStoreTest, CompilesEveryKind) {
  const auto status_of = [&](auto set) {
    v1::Constraint constraint;
    set(constraint);
    return Prepare(constraint).status();
  };
  EXPECT_TRUE(status_of([](auto& c) { c.set_json_schema(R"({"type":"integer"})"); }).ok());
  EXPECT_TRUE(status_of([](auto& c) { c.set_any_json(true); }).ok());
  EXPECT_TRUE(status_of([](auto& c) { c.set_grammar("root ::= \"a\""); }).ok());
  EXPECT_TRUE(status_of([](auto& c) { c.add_choices("ab"); }).ok());
  EXPECT_TRUE(status_of([](auto& c) {
                auto& tag = *c.mutable_structural_tags()->add_tags();
                tag.set_begin("a");
                tag.mutable_content()->set_any_json(true);
              }).ok());
  EXPECT_THAT(std::string(status_of([](auto& c) { c.set_json_schema("{"); }).message()),
              HasSubstr("json_schema: "));
  EXPECT_THAT(std::string(status_of([](auto& c) {
                            auto& tag = *c.mutable_structural_tags()->add_tags();
                            tag.set_begin("a");
                            tag.mutable_content()->set_grammar("root ::= x");
                          }).message()),
              HasSubstr("structural_tags.tags[0].content: grammar: line 1"));
}

TEST_F(ConstraintStoreTest, ForgetsWhatNobodyUsesWhereRoomIsShort) {
  ConstraintStore small(40, {.max_bytes = 1});
  small.SetVocabulary(Letters());
  { const auto used = small.Get(Regex("a")); }
  const auto used = small.Get(Regex("b"));
  EXPECT_EQ(small.size(), 1u);  // a was forgotten
  absl::Notification done;
  small.Prepare(Regex("c"), [&](const ConstraintStore::Result& result) {
    EXPECT_EQ(result.status().code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(result.status().message()), HasSubstr("the constraints in use take"));
    done.Notify();
  });
  done.WaitForNotification();
  EXPECT_TRUE(small.Get(Regex("c")).ok());  // an open stream goes on
}

// Nothing is compiled before it is known what tokens stand for.
TEST(ConstraintStore, DoesNotCompileWhatNobodyWaitsForAnyMore) {
  ConstraintStore store(40);
  std::vector<absl::Status> told(4, absl::UnknownError("nothing yet"));
  absl::Notification done;
  const auto prepare = [&](int caller, const char* pattern) {
    return store.Prepare(Regex(pattern), [&, caller](const ConstraintStore::Result& result) {
      told[caller] = result.status();
      if (caller == 1) done.Notify();
    });
  };
  const auto first = prepare(0, "a");
  prepare(1, "a");
  const auto third = prepare(2, "b");
  const auto fourth = prepare(3, "c");
  store.Hurry(Regex("c"));
  EXPECT_EQ(store.size(), 3u);
  store.Leave(first);
  EXPECT_EQ(told[0].code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(store.size(), 3u) << "somebody else waits for it";
  store.Leave(third);
  EXPECT_EQ(told[2].code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(store.size(), 2u);
  store.Leave(fourth);
  EXPECT_EQ(told[3].code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(store.size(), 2u) << "a plan needs it";
  store.SetVocabulary(Letters());
  done.WaitForNotification();
  EXPECT_TRUE(told[1].ok()) << told[1];
  EXPECT_TRUE(store.Get(Regex("c")).ok());
  store.Leave(first);
  EXPECT_TRUE(store.Get(Regex("b")).ok()) << "it is compiled where it is wanted again";
}

// Takes a good part of a second: whether any string keeps one pattern and not the other is a search
// among thousands of states, for every member.
v1::Constraint Slow(int variant) {
  std::string members;
  for (int i = 0; i < 10; ++i) {
    absl::StrAppend(&members, i == 0 ? "" : ",", "\"", variant, "_", i,
                    R"(":{"type":"string","pattern":"^(a|b)*a(a|b){12}c{)", i,
                    R"(}$","not":{"pattern":"^(a|b)*(a|b){12}c*$"}})");
  }
  v1::Constraint constraint;
  constraint.set_json_schema(absl::StrCat("{\"properties\":{", members, "}}"));
  return constraint;
}

TEST(ConstraintStore, StopsCompilingWhatNobodyWaitsForAnyMore) {
  auto store = std::make_unique<ConstraintStore>(40);
  store->SetVocabulary(Letters());
  const absl::Time begin = absl::Now();
  store->Get(Slow(0)).IgnoreError();
  const absl::Duration whole = absl::Now() - begin;
  absl::Status told;
  const auto ticket = store->Prepare(
      Slow(1), [&](const ConstraintStore::Result& result) { told = result.status(); });
  EXPECT_TRUE(store->Get(Regex("a")).ok());
  EXPECT_TRUE(told.ok()) << told << ": that one was compiled while this one is";
  store->Leave(ticket);
  const absl::Time left = absl::Now();
  EXPECT_EQ(told.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(store->size(), 2u);
  EXPECT_TRUE(store->Get(Regex("b")).ok()) << "others are compiled as before";
  store.reset();  // waits for whoever compiles
  EXPECT_LT(absl::Now() - left, whole / 4);
}

TEST(ConstraintStore, NeedsToKnowWhatTokensStandFor) {
  ConstraintStore store(40);
  EXPECT_FALSE(store.has_vocabulary());
  EXPECT_EQ(store.Get(Regex("a")).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(ConstraintStoreTest, TextIsAFunctionOfItsTokens) {
  ConstrainedText text(store.Get(Regex("(ab)+c")));
  EXPECT_THAT(Allowed(text, {}), ElementsAre(2, 5));
  EXPECT_THAT(Allowed(text, {2}), ElementsAre(3));
  EXPECT_THAT(Allowed(text, {2, 3}), ElementsAre(2, 4, 5));
  EXPECT_THAT(Allowed(text, {2, 3, 4}), ElementsAre(kEnd));
  text.Truncate(1);
  EXPECT_THAT(Allowed(text, {2}), ElementsAre(3));
  text.Truncate(0);
  EXPECT_THAT(Allowed(text, {5, 5}), ElementsAre(2, 4, 5));
  EXPECT_THAT(Allowed(text, {5, 5, 4, kEnd}), ElementsAre());
  text.Truncate(3);
  EXPECT_THAT(Allowed(text, {5, 5, 4}), ElementsAre(kEnd));
  ConstrainedText rebuilt(store.Get(Regex("(ab)+c")));
  EXPECT_THAT(Allowed(rebuilt, {2, 3}), ElementsAre(2, 4, 5));
}

TEST_F(ConstraintStoreTest, TextKnowsHowWhatMustComeIsUsuallyWritten) {
  ConstrainedText text(store.Get(Regex("abcab(a|b)")));
  EXPECT_THAT(text.Forced({}, 9), ElementsAre()) << "a or ab";
  EXPECT_THAT(text.Likely({}, 9), ElementsAre(5, 4, 5));
  EXPECT_THAT(text.Likely({}, 2), ElementsAre(5, 4));
  const std::vector<int32_t> otherwise = {2, 3};
  EXPECT_THAT(text.Likely(otherwise, 9), ElementsAre(4, 5)) << "however it was begun";
  const std::vector<int32_t> open = {2, 3, 4, 5};
  EXPECT_THAT(text.Likely(open, 9), ElementsAre());
  ConstrainedText broken(store.Get(Regex("a[")));
  EXPECT_THAT(broken.Likely({}, 9), ElementsAre());
}

TEST_F(ConstraintStoreTest, TextKeepsToTheTokensAllowedOtherwise) {
  ConstrainedText text(store.Get(Regex("a|ab|b")));
  EXPECT_THAT(Allowed(text, {}), ElementsAre(2, 3, 5));
  EXPECT_THAT(Allowed(text, {}, {1u << 3 | 1u << 4, 0}), ElementsAre(3));
}

TEST_F(ConstraintStoreTest, TextRefusesTokensThatDoNotKeepIt) {
  ConstrainedText text(store.Get(Regex("ab")));
  const std::vector<int32_t> tokens = {2, 2};
  const absl::Status refused = text.Allowed(tokens, {}).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("the text so far does not keep the constraint: token 2 at 1"));
  ConstrainedText broken(store.Get(Regex("a[")));
  EXPECT_EQ(broken.Allowed({}, {}).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace sluice
