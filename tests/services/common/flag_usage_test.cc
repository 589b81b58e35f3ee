#include "services/common/flag_usage.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(PathInRepositoryTest, DropsWhereItWasBuilt) {
  EXPECT_EQ(PathInRepository("/home/me/sluice/services/shard/main.cc"), "services/shard/main.cc");
  EXPECT_EQ(PathInRepository("/srv/orchestrator/main.cc"), "orchestrator/main.cc");
  EXPECT_EQ(PathInRepository("/srv/services/sluice/services/common/process.cc"),
            "services/common/process.cc");
  EXPECT_EQ(PathInRepository("services/shard/main.cc"), "services/shard/main.cc");
  EXPECT_EQ(PathInRepository("/usr/include/absl/flags/parse.cc"),
            "/usr/include/absl/flags/parse.cc");
}

}  // namespace
}  // namespace sluice
