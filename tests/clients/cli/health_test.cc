// `sluice health` against servers in every state.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/clients/cli/fake_pipeline.h"

namespace sluice::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(HealthTest, ExitsWithWhatTheServerSaysOfItself) {
  FakePipeline server(DefaultAnswers());
  for (const bool serving : {false, true, false}) {
    server.SetServing(serving);
    FakeEnvironment fake;
    EXPECT_EQ(fake.Run({"health", "--endpoint", server.endpoint(), "--timeout", "20"}),
              serving ? 0 : 1);
    EXPECT_EQ(fake.out.str(), serving ? "SERVING\n" : "NOT_SERVING\n");
    EXPECT_THAT(fake.err.str(), IsEmpty());
  }
}

TEST(HealthTest, NamesAServiceThatIsNotThere) {
  FakePipeline server(DefaultAnswers());
  FakeEnvironment fake;
  EXPECT_EQ(fake.Run({"health", "--endpoint", server.endpoint(), "--service", "no.such.Service",
                      "--timeout", "20"}),
            1);
  EXPECT_THAT(fake.err.str(), HasSubstr("[NOT_FOUND]"));
}

TEST(HealthTest, FailsWhereNobodyAnswers) {
  FakeEnvironment fake;
  EXPECT_EQ(fake.Run({"health", "--endpoint", "127.0.0.1:9"}), 1);
  EXPECT_EQ(fake.err.str(), "sluice: cannot reach 127.0.0.1:9: Connection refused [UNAVAILABLE]\n");
}

}  // namespace
}  // namespace sluice::testing
