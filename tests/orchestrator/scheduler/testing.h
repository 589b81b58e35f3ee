// Short ways to write specs and drive a scheduler by hand in tests.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <numeric>
#include <utility>
#include <vector>

#include "orchestrator/scheduler/scheduler.h"

namespace sluice {

// Tokens 100, 101, ...
inline std::vector<TokenId> Prompt(int num_tokens) {
  std::vector<TokenId> tokens(num_tokens);
  std::iota(tokens.begin(), tokens.end(), 100);
  return tokens;
}

// One that has nothing to do with others, though their prompts begin alike.
inline SequenceSpec Spec(SequenceId id, int num_prompt, int max_new_tokens) {
  SequenceSpec spec;
  spec.id = id;
  spec.request = id + 1000;
  spec.prompt = Prompt(num_prompt);
  spec.max_new_tokens = max_new_tokens;
  spec.use_prefix_cache = false;
  return spec;
}

// A scheduler whose every change is followed by an integrity check.
class SchedulerTest : public ::testing::Test {
 protected:
  // Room for everything, one step in flight; each test narrows what it is about.
  SchedulerOptions options_ = {.max_positions = 1000};
  KvCacheOptions kv_cache_ = {.num_blocks = 100, .block_size = 4};

  Scheduler& scheduler() {
    if (!scheduler_.has_value()) {
      SchedulerOptions options = options_;
      if (options.tenants == nullptr) options.tenants = &tenants_.emplace(options.tenant_policies);
      scheduler_.emplace(options, kv_cache_);
    }
    return *scheduler_;
  }
  // The accounts of that scheduler, where the options name no others.
  const Tenants& tenants() {
    scheduler();
    return *tenants_;
  }

  void Add(SequenceSpec spec) {
    const absl::Status status = scheduler().Add(std::move(spec));
    ASSERT_TRUE(status.ok()) << status;
    CheckIntegrity();
  }

  // A step that the test relies on; an empty one, with a failure, where there is none.
  Step Plan() {
    std::optional<Step> step = scheduler().Plan();
    CheckIntegrity();
    if (!step.has_value()) {
      ADD_FAILURE() << "no step was planned";
      return {};
    }
    return *std::move(step);
  }

  bool PlansNothing() { return !scheduler().Plan().has_value(); }

  // Commits `step` with the same token for every row.
  StepOutcome Commit(const Step& step, TokenId token = 1) {
    const std::vector<TokenId> tokens(step.num_rows(), token);
    absl::StatusOr<StepOutcome> outcome = scheduler().Commit(step.id, tokens);
    CheckIntegrity();
    if (!outcome.ok()) {
      ADD_FAILURE() << outcome.status();
      return {};
    }
    return *std::move(outcome);
  }

  Step PlanAndCommit(TokenId token = 1) {
    Step step = Plan();
    Commit(step, token);
    return step;
  }

  SequenceUsage Usage(SequenceId sequence) { return Report(sequence).usage; }

  SequenceReport Report(SequenceId sequence) {
    const absl::StatusOr<SequenceReport> report = scheduler().Report(sequence);
    EXPECT_TRUE(report.ok()) << report.status();
    return report.value_or(SequenceReport{});
  }

  std::vector<BlockId> Table(SequenceId sequence) {
    const absl::Span<const BlockId> table = scheduler().kv_cache().BlockTable(sequence);
    return {table.begin(), table.end()};
  }

  void CheckIntegrity() {
    const absl::Status status = scheduler().CheckIntegrity();
    EXPECT_TRUE(status.ok()) << status;
  }

 private:
  std::optional<Tenants> tenants_;
  std::optional<Scheduler> scheduler_;
};

// {sequence, first position, number of positions} of every segment.
struct Part {
  SequenceId sequence;
  int32_t first;
  int32_t count;
  friend bool operator==(const Part&, const Part&) = default;
  friend void PrintTo(const Part& part, std::ostream* out) {
    *out << "{" << part.sequence << ", " << part.first << ", " << part.count << "}";
  }
};

inline std::vector<Part> Parts(const Step& step) {
  std::vector<Part> parts;
  for (const Segment& segment : step.segments) {
    parts.push_back(
        {segment.sequence, segment.first_position, static_cast<int32_t>(segment.tokens.size())});
  }
  return parts;
}

// Matches a status with this code whose message contains `text`.
MATCHER_P2(StatusIs, code, text, "") {
  return arg.code() == code &&
         ::testing::Value(std::string(arg.message()), ::testing::HasSubstr(text));
}

}  // namespace sluice
