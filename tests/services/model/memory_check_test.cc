#include "services/model/memory_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace sluice {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr uint64_t kMib = 1 << 20;

std::string Refusal(const KeptMemory& kept, uint64_t limit) {
  const absl::Status status = CheckFits(kept, limit);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  return std::string(status.message());
}

TEST(MemoryCheck, WhatFitsToTheByteFits) {
  const KeptMemory kept{.who = "shard 0-1", .weight_bytes = 3 * kMib, .kv_bytes = 2 * kMib};
  EXPECT_TRUE(CheckFits(kept, 5 * kMib).ok());
  EXPECT_FALSE(CheckFits(kept, 5 * kMib - 1).ok());
  EXPECT_TRUE(CheckFits(kept, std::numeric_limits<uint64_t>::max()).ok());
}

TEST(MemoryCheck, SaysWhoKeepsWhatAndWhatWouldFit) {
  const std::string said =
      Refusal({.who = "shard 0-1", .weight_bytes = 3 * kMib, .kv_bytes = 512 * kMib}, 96 * kMib);
  EXPECT_THAT(said, HasSubstr("shard 0-1 does not fit: 3.0 MiB of weights and 512.0 MiB of keys "
                              "and values, where the memory limit of this container is 96.0 MiB"));
  EXPECT_THAT(
      said,
      HasSubstr("accepted: a limit of more than 515.0 MiB, or --kv_cache_mib of less than 93"));
}

TEST(MemoryCheck, SaysThatTheWeightsAloneAreTooMany) {
  for (const uint64_t kv : {uint64_t{0}, 8 * kMib}) {
    const std::string said =
        Refusal({.who = "the head", .weight_bytes = 100 * kMib, .kv_bytes = kv}, 96 * kMib);
    EXPECT_THAT(said, HasSubstr("smaller --weights, or more ranks or stages"));
    EXPECT_THAT(said, Not(HasSubstr("--kv_cache_mib")));
  }
}

}  // namespace
}  // namespace sluice
