// Constraints compiled beside the steps: what is kept, what is refused, what is forgotten.
#include "services/sampler/constraints/constraint_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>
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

const WorkOwner kSomebody = {.tenant = "somebody"};

// What a sequence that is under way waits for.
ConstraintStore::Result Get(ConstraintStore& store, const v1::Constraint& constraint,
                            const WorkOwner& owner = kSomebody) {
  ConstraintStore::Result result;
  absl::Notification done;
  store.Need(constraint, owner, [&](const ConstraintStore::Result& needed, absl::Duration) {
    result = needed;
    done.Notify();
  });
  done.WaitForNotification();
  return result;
}

struct ConstraintStoreTest : ::testing::Test {
  ConstraintStoreTest() { store.SetVocabulary(Letters()); }

  ConstraintStore::Result Prepare(const v1::Constraint& constraint) {
    ConstraintStore::Result result;
    absl::Notification done;
    store.Prepare(constraint, kSomebody,
                  [&](const ConstraintStore::Result& prepared, absl::Duration) {
                    result = prepared;
                    done.Notify();
                  });
    done.WaitForNotification();
    return result;
  }
  ConstraintStore::Result Get(const v1::Constraint& constraint) {
    return sluice::Get(store, constraint);
  }

  ConstraintStore store{40};
};

MaskAnswer Answer(ConstrainedText& text, MaskQuery query) {
  text.Ask(std::move(query));
  const MaskAnswer* answer = text.Answer(SteadyTime::Now() + absl::Seconds(60));
  EXPECT_NE(answer, nullptr);
  return answer == nullptr ? MaskAnswer() : *answer;
}

std::vector<int32_t> IdsOf(const absl::StatusOr<std::vector<uint32_t>>& mask) {
  EXPECT_TRUE(mask.ok()) << mask.status();
  if (!mask.ok()) return {};
  EXPECT_EQ(mask->size(), 2u);  // words of a vocabulary of 40
  std::vector<int32_t> ids;
  for (int32_t id = 0; id < 64; ++id) {
    if (((*mask)[id / 32] >> (id % 32) & 1) != 0) ids.push_back(id);
  }
  return ids;
}

std::vector<int32_t> Allowed(ConstrainedText& text, const std::vector<int32_t>& tokens) {
  return IdsOf(Answer(text, {.tokens = tokens}).masks.at(0));
}

TEST_F(ConstraintStoreTest, CompilesOnceAndSharesIt) {
  const auto first = Prepare(Regex("ab*"));
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(*Prepare(Regex("ab*")), *first);
  EXPECT_EQ(*Get(Regex("ab*")), *first);
  EXPECT_NE(*Get(Regex("ab")), *first);
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

TEST_F(ConstraintStoreTest, IsAskedForByEachTenantForItself) {
  const auto mine = Get(Regex("ab*"));
  EXPECT_NE(*sluice::Get(store, Regex("ab*"), {.tenant = "another"}), *mine);
  EXPECT_EQ(*Get(Regex("ab*")), *mine);
}

TEST_F(ConstraintStoreTest, ForgetsWhatNobodyUsesWhereRoomIsShort) {
  ConstraintStore small(40, {.max_bytes = 1});
  small.SetVocabulary(Letters());
  { const auto used = sluice::Get(small, Regex("a")); }
  const auto used = sluice::Get(small, Regex("b"));
  // The thread that compiled `a` may hold it for a moment after it has said so.
  const absl::Time deadline = absl::Now() + absl::Seconds(10);
  do {
    absl::Notification done;
    small.Prepare(Regex("c"), kSomebody,
                  [&](const ConstraintStore::Result& result, absl::Duration) {
                    EXPECT_EQ(result.status().code(), absl::StatusCode::kResourceExhausted);
                    EXPECT_THAT(std::string(result.status().message()),
                                HasSubstr("the constraints in use take"));
                    done.Notify();
                  });
    done.WaitForNotification();
  } while (small.size() > 1 && absl::Now() < deadline);
  EXPECT_EQ(small.size(), 1u);                       // `a` was forgotten
  EXPECT_TRUE(sluice::Get(small, Regex("c")).ok());  // an open stream goes on
}

// Nothing is compiled before it is known what tokens stand for.
TEST(ConstraintStore, DoesNotCompileWhatNobodyWaitsForAnyMore) {
  ConstraintStore store(40);
  std::vector<absl::Status> told(3, absl::UnknownError("nothing yet"));
  absl::Notification done;
  const auto prepare = [&](int caller, const char* pattern) {
    return store.Prepare(Regex(pattern), kSomebody,
                         [&, caller](const ConstraintStore::Result& result, absl::Duration) {
                           told[caller] = result.status();
                           if (caller == 1) done.Notify();
                         });
  };
  const auto first = prepare(0, "a");
  prepare(1, "a");
  const auto third = prepare(2, "b");
  EXPECT_EQ(store.size(), 2u);
  store.Leave(first);
  EXPECT_EQ(told[0].code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(store.size(), 2u) << "somebody else waits for it";
  store.Leave(third);
  EXPECT_EQ(told[2].code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(store.size(), 1u);
  store.SetVocabulary(Letters());
  done.WaitForNotification();
  EXPECT_TRUE(told[1].ok()) << told[1];
  store.Leave(first);
  EXPECT_TRUE(Get(store, Regex("b")).ok()) << "it is compiled where it is wanted again";
}

// Takes a good part of a second: whether any string keeps one pattern and not the other is a search
// among thousands of states, for every member.
v1::Constraint Slow(int variant, int num_members = 10) {
  std::string members;
  for (int i = 0; i < num_members; ++i) {
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
  Get(*store, Slow(0)).IgnoreError();
  const absl::Duration whole = absl::Now() - begin;
  absl::Status told;
  const auto ticket = store->Prepare(
      Slow(1), kSomebody,
      [&](const ConstraintStore::Result& result, absl::Duration) { told = result.status(); });
  EXPECT_TRUE(Get(*store, Regex("a")).ok());
  EXPECT_TRUE(told.ok()) << told << ": that one was compiled while this one is";
  store->Leave(ticket);
  const absl::Time left = absl::Now();
  EXPECT_EQ(told.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(store->size(), 2u);
  EXPECT_TRUE(Get(*store, Regex("b")).ok()) << "others are compiled as before";
  store.reset();  // waits for whoever compiles
  EXPECT_LT(absl::Now() - left, whole / 4);
}

TEST(ConstraintStore, StopsCompilingAtTheBudgetOfWhoWaits) {
  ConstraintStore store(40);
  store.SetVocabulary(Letters());
  absl::Duration whole, taken;
  const auto prepare = [&store](absl::Duration max_work, absl::Duration& work) {
    absl::Status status;
    absl::Notification done;
    store.Prepare(
        Slow(0, 3), kSomebody,
        [&](const ConstraintStore::Result& result, absl::Duration used) {
          status = result.status();
          work = used;
          done.Notify();
        },
        max_work);
    done.WaitForNotification();
    return status;
  };
  const absl::Status refused = prepare(absl::Milliseconds(2), taken);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("accepted: up to 2ms a request"));
  EXPECT_EQ(store.size(), 0u) << "another may let it take more";
  EXPECT_EQ(prepare(absl::Minutes(10), whole), absl::OkStatus());
  EXPECT_GE(taken, absl::Milliseconds(2)) << "what it took is told with the refusal";
  EXPECT_LT(taken, whole / 4);
  EXPECT_EQ(prepare(absl::Milliseconds(2), taken), absl::OkStatus()) << "it is known";
  EXPECT_EQ(taken, absl::ZeroDuration());
}

TEST(ConstraintStore, GoesOnForWhoHasMoreToSpend) {
  ConstraintStore store(40);
  absl::Status poor, rich;
  absl::Notification done[2];
  const auto prepare = [&](absl::Duration max_work, absl::Status& status, absl::Notification& end) {
    store.Prepare(
        Slow(0, 3), kSomebody,
        [&](const ConstraintStore::Result& result, absl::Duration) {
          status = result.status();
          end.Notify();
        },
        max_work);
  };
  prepare(absl::Milliseconds(2), poor, done[0]);
  prepare(absl::Minutes(10), rich, done[1]);
  store.SetVocabulary(Letters());
  for (absl::Notification& end : done) end.WaitForNotification();
  EXPECT_TRUE(rich.ok()) << rich;
  EXPECT_TRUE(poor.ok()) << poor;
}

TEST(ConstraintStore, TellsWhatARefusedConstraintHasTaken) {
  ConstraintStore store(40);
  store.SetVocabulary(Letters());
  v1::Constraint costly = Slow(0, 3);  // and wrong, in its last member
  costly.mutable_json_schema()->insert(costly.json_schema().size() - 2, R"(,"z":{"type":"no"})");
  absl::Notification done;
  absl::Duration work;
  store.Prepare(costly, kSomebody, [&](const ConstraintStore::Result& result, absl::Duration used) {
    EXPECT_FALSE(result.ok());
    work = used;
    done.Notify();
  });
  done.WaitForNotification();
  EXPECT_GT(work, absl::ZeroDuration());
}

// One thread compiles at a time, so that what is done before is counted, not timed.
TEST(ConstraintStore, ATrivialOneDoesNotWaitForNinetyOfAnotherTenant) {
  ConstraintStore::Options options;
  options.work.max_running = 1;
  ConstraintStore store(40, options);
  store.SetVocabulary(Letters());
  std::atomic<int> num_compiled = 0, num_refused = 0;
  for (int i = 0; i < 90; ++i) {
    store.Prepare(Slow(i), {.tenant = "greedy"},
                  [&](const ConstraintStore::Result& result, absl::Duration) {
                    if (result.ok()) ++num_compiled;
                    if (absl::IsResourceExhausted(result.status())) ++num_refused;
                  });
  }
  absl::Notification done;
  store.Prepare(Regex("a"), {.tenant = "good"},
                [&](const ConstraintStore::Result& result, absl::Duration) {
                  EXPECT_TRUE(result.ok()) << result.status();
                  done.Notify();
                });
  done.WaitForNotification();
  EXPECT_EQ(num_compiled, 0) << "it waits for a slice, not for one of them";
  EXPECT_EQ(num_refused, 0);
}

TEST(ConstraintStore, OneTenantsWaitingIsNotAnothersRefusal) {
  ConstraintStore::Options options;
  options.work.max_running = 1;
  options.work.max_jobs = 20;
  ConstraintStore store(40, options);
  store.SetVocabulary(Letters());
  Get(store, Regex("first")).IgnoreError();
  int num_refused = 0;
  for (int i = 0; i < 30; ++i) {
    store.Prepare(Slow(i), {.tenant = "greedy"},
                  [&](const ConstraintStore::Result& result, absl::Duration) {
                    if (absl::IsResourceExhausted(result.status())) ++num_refused;
                  });
  }
  EXPECT_EQ(num_refused, 20);
  absl::Notification done;
  store.Prepare(Regex("a"), {.tenant = "good"},
                [&](const ConstraintStore::Result& result, absl::Duration) {
                  EXPECT_TRUE(result.ok()) << result.status();
                  done.Notify();
                });
  done.WaitForNotification();
}

// ---- Texts ----

TEST(ConstrainedText, IsNotReadyUntilItsConstraintIsCompiled) {
  ConstraintStore store(40);
  ConstrainedText text(store, Regex("ab"), kSomebody);
  text.Ask({.tokens = {}});
  EXPECT_EQ(text.Answer(SteadyTime::Now()), nullptr);
  store.SetVocabulary(Letters());
  EXPECT_THAT(Allowed(text, {}), ElementsAre(2, 5));
  EXPECT_GT(text.TakeWork(), absl::ZeroDuration());
  EXPECT_EQ(text.TakeWork(), absl::ZeroDuration());
}

TEST(ConstrainedText, ThatEndsLetsGoOfAConstraintThatIsNotCompiled) {
  ConstraintStore store(40);
  { const ConstrainedText text(store, Regex("ab"), kSomebody); }
  EXPECT_EQ(store.size(), 0u);
}

TEST_F(ConstraintStoreTest, TextIsAFunctionOfItsTokens) {
  ConstrainedText text(Get(Regex("(ab)+c")));
  EXPECT_THAT(Allowed(text, {}), ElementsAre(2, 5));
  EXPECT_THAT(Allowed(text, {2}), ElementsAre(3));
  EXPECT_THAT(Allowed(text, {2, 3}), ElementsAre(2, 4, 5));
  EXPECT_THAT(Allowed(text, {2, 3, 4}), ElementsAre(kEnd));
  EXPECT_THAT(Allowed(text, {2}), ElementsAre(3)) << "the others were taken back";
  EXPECT_THAT(Allowed(text, {5, 5}), ElementsAre(2, 4, 5));
  EXPECT_THAT(Allowed(text, {5, 5, 4, kEnd}), ElementsAre());
  EXPECT_THAT(Allowed(text, {5, 5, 4}), ElementsAre(kEnd));
  ConstrainedText rebuilt(Get(Regex("(ab)+c")));
  EXPECT_THAT(Allowed(rebuilt, {2, 3}), ElementsAre(2, 4, 5));
}

TEST_F(ConstraintStoreTest, TextHasAMaskBehindEachDraftUntilOneIsWrong) {
  ConstrainedText text(Get(Regex("(ab)+c")));
  const MaskAnswer answer = Answer(text, {.tokens = {2}, .drafts = {3, 4, 4, 4}});
  ASSERT_EQ(answer.masks.size(), 5u);
  EXPECT_THAT(IdsOf(answer.masks[0]), ElementsAre(3));
  EXPECT_THAT(IdsOf(answer.masks[1]), ElementsAre(2, 4, 5));
  EXPECT_THAT(IdsOf(answer.masks[2]), ElementsAre(kEnd));
  EXPECT_EQ(answer.masks[3].status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(answer.masks[4].status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Allowed(text, {2}), ElementsAre(3)) << "drafts leave nothing behind";
}

TEST_F(ConstraintStoreTest, TextKnowsHowWhatMustComeIsUsuallyWritten) {
  ConstrainedText text(Get(Regex("abcab(a|b)")));
  const MaskAnswer begin = Answer(text, {.tokens = {}, .max_following = 9});
  EXPECT_THAT(begin.forced, ElementsAre()) << "a or ab";
  EXPECT_THAT(begin.likely, ElementsAre(5, 4, 5));
  ConstrainedText other(Get(Regex("abcab(a|b)")));
  EXPECT_THAT(Answer(other, {.tokens = {}, .max_following = 2}).likely, ElementsAre(5, 4));
  EXPECT_THAT(Answer(text, {.tokens = {2}, .max_following = 9}).forced, ElementsAre(3, 4));
  EXPECT_THAT(Answer(text, {.tokens = {2, 3}, .max_following = 9}).forced, ElementsAre(4));
  const MaskAnswer open = Answer(text, {.tokens = {2, 3, 4, 5}, .max_following = 9});
  EXPECT_THAT(open.forced, ElementsAre());
  EXPECT_THAT(open.likely, ElementsAre());
  ConstrainedText broken(Get(Regex("a[")));
  EXPECT_THAT(Answer(broken, {.tokens = {}, .max_following = 9}).likely, ElementsAre());
}

TEST_F(ConstraintStoreTest, TextRefusesTokensThatDoNotKeepIt) {
  ConstrainedText text(Get(Regex("ab")));
  const absl::Status refused = Answer(text, {.tokens = {2, 2}}).masks.at(0).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("the text so far does not keep the constraint: token 2 at 1"));
  EXPECT_THAT(Allowed(text, {2}), ElementsAre(3)) << "what was wrong left nothing behind";
  ConstrainedText broken(Get(Regex("a[")));
  EXPECT_EQ(Answer(broken, {.tokens = {}}).masks.at(0).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace sluice
