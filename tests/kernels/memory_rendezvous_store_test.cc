#include "kernels/communicator/memory_rendezvous_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

namespace sluice {
namespace {

TEST(MemoryRendezvousStoreTest, GivesEachKeyItsFirstValue) {
  MemoryRendezvousStore store;
  const std::string bytes("a\0b", 3);
  ASSERT_TRUE(store.Set("x", bytes).ok());
  ASSERT_TRUE(store.Set("y", "").ok());
  EXPECT_TRUE(absl::IsAlreadyExists(store.Set("x", "other")));
  EXPECT_EQ(store.Get("x", Deadline::Never(), {}).value(), bytes);
  EXPECT_EQ(store.Get("y", Deadline::After(absl::ZeroDuration()), {}).value(), "");
}

TEST(MemoryRendezvousStoreTest, NamesTheKeyThatWasNotSetInTime) {
  MemoryRendezvousStore store;
  const absl::Status status = store.Get("x", Deadline::After(absl::ZeroDuration()), {}).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_THAT(status.ToString(), ::testing::HasSubstr("'x'"));
}

TEST(MemoryRendezvousStoreTest, GetReturnsOnceTheKeyIsSet) {
  MemoryRendezvousStore store;
  std::thread setter([&] { EXPECT_TRUE(store.Set("x", "1").ok()); });
  EXPECT_EQ(store.Get("x", Deadline::Never(), {}).value(), "1");
  setter.join();
}

}  // namespace
}  // namespace sluice
