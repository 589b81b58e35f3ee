// Steps that the builder fills; what is planned in the whole is tested in plan_test.cc.
#include "orchestrator/scheduler/step_builder.h"

#include "tests/orchestrator/scheduler/scheduler_parts.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;

class StepBuilderTest : public PartsTest {
 protected:
  StepBuilder& builder() {
    if (!builder_.has_value()) {
      SchedulerParts& p = parts();
      builder_.emplace(p.options, p.kv_cache, p.table, p.flights, p.admission, p.budget);
    }
    return *builder_;
  }

 private:
  std::optional<StepBuilder> builder_;
};

TEST_F(StepBuilderTest, FillsAStepWithChunksInServingOrder) {
  options_.max_tokens_per_step = 8;
  parts().Enqueue(Spec(1, 6, 4));
  parts().Enqueue(Spec(2, 6, 4));
  const std::optional<Step> step = builder().Build();
  ASSERT_TRUE(step.has_value());
  EXPECT_THAT(Parts(*step), ElementsAre(Part{1, 0, 6}, Part{2, 0, 2}));
  EXPECT_EQ(parts().flights.size(), 1);
  EXPECT_EQ(parts().table.Find(2)->num_planned, 2);
}

TEST_F(StepBuilderTest, LeavesNoStepBehindWhereNothingCanBeComputed) {
  EXPECT_FALSE(builder().Build().has_value());
  EXPECT_TRUE(parts().flights.empty());
  EXPECT_EQ(parts().flights.next_id(), 1u);
}

TEST_F(StepBuilderTest, StopsAdmittingAtTheFirstThatFindsNoRoom) {
  parts().Enqueue(Spec(1, 32, 4));
  parts().Enqueue(Spec(2, 12, 4));
  parts().Enqueue(Spec(3, 4, 4));
  const std::optional<Step> step = builder().Build();
  ASSERT_TRUE(step.has_value());
  EXPECT_THAT(Parts(*step), ElementsAre(Part{1, 0, 32}));
}

TEST_F(StepBuilderTest, NamesATokenInFlightByStepAndRow) {
  options_.steps_ahead = 1;
  parts().Enqueue(Spec(1, 6, 4));
  ASSERT_TRUE(builder().Build().has_value());
  const std::optional<Step> ahead = builder().Build();
  ASSERT_TRUE(ahead.has_value());
  EXPECT_EQ(ahead->segments.at(0).chosen_by, (ChosenBy{.step = 1, .row = 0}));
  EXPECT_FALSE(builder().Build().has_value());  // as many as may be are in flight
}

}  // namespace
}  // namespace sluice
