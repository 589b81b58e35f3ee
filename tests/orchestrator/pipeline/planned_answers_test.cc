// What the sampler answers against what it was asked.
#include "orchestrator/pipeline/planned_answers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace sluice {
namespace {

using ::testing::HasSubstr;

constexpr int32_t kVocabulary = 100;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// One that chooses and one that scores token 5; both want two alternatives.
std::vector<RowRequest> Rows() {
  static const SamplingOptions options;
  std::vector<RowRequest> rows(2);
  rows[0].task = &options;
  rows[0].num_logprobs = 2;
  rows[0].max_forced = 2;
  rows[1].task = ScoreTarget{5};
  rows[1].num_logprobs = 2;
  return rows;
}

// What is right for them, as step 7.
v1::StageExecuted Answer() {
  v1::StageExecuted executed;
  executed.set_step_id(7);
  for (const int32_t token : {99, 5}) {
    v1::SampledRow& row = *executed.mutable_sampler()->add_rows();
    row.set_token_id(token);
    row.set_logprob(-1);
    for (const int32_t top : {3, 4}) {
      row.add_top_token_ids(top);
      row.add_top_logprobs(-0.5f);
    }
  }
  return executed;
}

absl::StatusOr<StepExecuted> Take(const v1::StageExecuted& executed) {
  PlannedAnswers answers(kVocabulary);
  answers.Add(7, Rows());
  return answers.Take(executed);
}

TEST(PlannedAnswers, HandOnWhatFitsThePlan) {
  const auto executed = Take(Answer());
  ASSERT_TRUE(executed.ok()) << executed.status();
  EXPECT_EQ(executed->step, 7u);
  ASSERT_EQ(executed->rows.size(), 2u);
  EXPECT_EQ(executed->rows[0].token, 99);
  EXPECT_EQ(executed->rows[0].error, "");
  EXPECT_EQ(executed->rows[1].top.size(), 2u);
}

TEST(PlannedAnswers, TakeNothingElseFromARowThatIsDeferred) {
  v1::StageExecuted answer = Answer();
  answer.mutable_sampler()->mutable_rows(0)->set_deferred(true);
  answer.mutable_sampler()->mutable_rows(0)->set_token_id(1 << 30);
  answer.mutable_sampler()->mutable_rows(0)->set_work_us(70);
  const auto executed = Take(answer);
  ASSERT_TRUE(executed.ok()) << executed.status();
  EXPECT_TRUE(executed->rows[0].deferred);
  EXPECT_EQ(executed->rows[0].token, 0);
  EXPECT_EQ(executed->rows[0].work, absl::Microseconds(70));
  answer.mutable_sampler()->mutable_rows(0)->set_work_us(~uint64_t{0});
  EXPECT_EQ(Take(answer)->rows[0].work, absl::Hours(1));
  EXPECT_TRUE(executed->rows[0].top.empty());
  EXPECT_FALSE(executed->rows[1].deferred);
}

TEST(PlannedAnswers, RefuseWhatContradictsThePlan) {
  const struct {
    std::function<void(v1::StageExecuted&)> change;
    const char* complaint;
  } kCases[] = {
      {[](auto& a) { a.set_step_id(8); }, "step 8, which is not the next"},
      {[](auto& a) { a.mutable_sampler()->mutable_rows(1)->set_deferred(true); },
       "row 1 of step 7 with no token yet"},
      {[](auto& a) { a.mutable_sampler()->mutable_rows()->RemoveLast(); },
       "with 1 rows; it was asked for 2"},
      {[](auto& a) { *a.mutable_sampler()->add_rows() = a.sampler().rows(0); }, "with 3 rows"},
      {[](auto& a) { a.mutable_sampler()->mutable_rows(0)->set_token_id(-1); },
       "row 0 of step 7 with token -1"},
      {[](auto& a) { a.mutable_sampler()->mutable_rows(0)->set_token_id(100); },
       "token 100; the vocabulary has 100"},
      {[](auto& a) { a.mutable_sampler()->mutable_rows(1)->set_token_id(6); },
       "row 1 of step 7 with token 6 instead of 5"},
      {[](auto& a) { a.mutable_sampler()->mutable_rows(0)->set_top_token_ids(1, 1 << 30); },
       "token 1073741824"},
      {[](auto& a) { a.mutable_sampler()->mutable_rows(0)->set_top_token_ids(1, 3); },
       "out of order"},
      {[](auto& a) { a.mutable_sampler()->mutable_rows(0)->set_top_logprobs(1, 0); },
       "out of order"},
      {[](auto& a) { a.mutable_sampler()->mutable_rows(0)->add_top_logprobs(0); },
       "2 alternatives and 3"},
      {[](auto& a) {
         a.mutable_sampler()->mutable_rows(0)->add_top_token_ids(9);
         a.mutable_sampler()->mutable_rows(0)->add_top_logprobs(-2);
       },
       "3 alternatives; it was asked for 2"},
      {[](auto& a) { a.mutable_sampler()->mutable_rows(0)->add_forced_token_ids(-7); }, "token -7"},
      {[](auto& a) { a.mutable_sampler()->mutable_rows(0)->add_likely_token_ids(100); },
       "token 100"},
      {[](auto& a) { a.mutable_sampler()->mutable_rows(1)->add_forced_token_ids(1); },
       "1 tokens that follow"},
  };
  for (const auto& c : kCases) {
    v1::StageExecuted answer = Answer();
    c.change(answer);
    const auto executed = Take(answer);
    EXPECT_EQ(executed.status().code(), absl::StatusCode::kInternal) << c.complaint;
    EXPECT_THAT(std::string(executed.status().message()), HasSubstr(c.complaint));
  }
}

TEST(PlannedAnswers, FailRowsWhoseLogprobsAreNone) {
  const std::function<void(v1::SampledRow&)> kChanges[] = {
      [](auto& row) { row.set_logprob(std::nanf("")); },
      [](auto& row) { row.set_logprob(kInfinity); },
      [](auto& row) { row.set_logprob(0.5f); },
      [](auto& row) { row.set_top_logprobs(0, std::nanf("")); },
      [](auto& row) { row.set_top_logprobs(1, std::nanf("")); },
  };
  for (const auto& change : kChanges) {
    v1::StageExecuted answer = Answer();
    change(*answer.mutable_sampler()->mutable_rows(0));
    const auto executed = Take(answer);
    ASSERT_TRUE(executed.ok()) << executed.status();
    EXPECT_THAT(executed->rows[0].error, HasSubstr("log-probabilities"));
    EXPECT_EQ(executed->rows[0].error_code, absl::StatusCode::kInternal);
    EXPECT_EQ(executed->rows[0].token, 0);
    EXPECT_EQ(executed->rows[1].error, "");
  }
  // A token that nothing can choose.
  v1::StageExecuted answer = Answer();
  answer.mutable_sampler()->mutable_rows(1)->set_logprob(-kInfinity);
  EXPECT_EQ(Take(answer)->rows[1].error, "");
}

TEST(PlannedAnswers, ARowWithACodeHasFailed) {
  v1::StageExecuted answer = Answer();
  answer.mutable_sampler()->mutable_rows(0)->set_error_code(
      static_cast<int>(absl::StatusCode::kFailedPrecondition));
  answer.mutable_sampler()->mutable_rows(0)->set_token_id(1 << 30);
  answer.mutable_sampler()->mutable_rows(1)->set_error_code(4711);
  answer.mutable_sampler()->mutable_rows(1)->set_error_message(std::string(5000, 'x'));
  const auto executed = Take(answer);
  ASSERT_TRUE(executed.ok()) << executed.status();
  EXPECT_THAT(executed->rows[0].error, HasSubstr("does not say why"));
  EXPECT_EQ(executed->rows[0].error_code, absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(executed->rows[0].token, 0);
  EXPECT_EQ(executed->rows[1].error_code, absl::StatusCode::kInternal);
  EXPECT_EQ(executed->rows[1].error.size(), 1024u);
}

TEST(PlannedAnswers, TakeStepsInTheirOrderAndOnce) {
  PlannedAnswers answers(kVocabulary);
  answers.Add(7, Rows());
  answers.Add(8, Rows());
  EXPECT_TRUE(answers.Take(Answer()).ok());
  EXPECT_FALSE(answers.Take(Answer()).ok());
  v1::StageExecuted next = Answer();
  next.set_step_id(8);
  EXPECT_TRUE(answers.Take(next).ok());
  EXPECT_FALSE(answers.Take(next).ok());
}

TEST(PlannedAnswers, PerturbedAlternativesFallByThatFigure) {
  std::vector<RowRequest> rows(1);
  static const SamplingOptions options;
  rows[0].task = &options;
  rows[0].num_logprobs = 2;
  rows[0].perturbed = true;
  v1::StageExecuted answer = Answer();
  answer.mutable_sampler()->mutable_rows()->RemoveLast();
  answer.mutable_sampler()->mutable_rows(0)->set_top_logprobs(0, -3);
  answer.mutable_sampler()->mutable_rows(0)->add_top_perturbed(1.5);
  answer.mutable_sampler()->mutable_rows(0)->add_top_perturbed(1);
  for (const double second : {1.0, 2.0, std::nan("")}) {
    answer.mutable_sampler()->mutable_rows(0)->set_top_perturbed(1, second);
    PlannedAnswers answers(kVocabulary);
    answers.Add(7, rows);
    const auto executed = answers.Take(answer);
    EXPECT_EQ(executed.ok(), second != 2.0);
    if (!executed.ok()) continue;
    EXPECT_EQ(executed->rows[0].error.empty(), second == 1.0);
  }
}

}  // namespace
}  // namespace sluice
