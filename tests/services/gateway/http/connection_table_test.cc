#include "services/gateway/http/connection_table.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace sluice::http {
namespace {

using Entries = std::vector<std::unique_ptr<ConnectionTable::Entry>>;

// Adds a connection that waits; `ended` gets its number once it is asked to end.
void AddWaiting(ConnectionTable& table, const std::string& peer, int number,
                std::vector<int>& ended, Entries& entries) {
  entries.push_back(table.Add(peer, [&ended, number] { ended.push_back(number); }));
  ASSERT_NE(entries.back(), nullptr);
  entries.back()->SetWaiting(true);
}

TEST(ConnectionTableTest, TheOldestThatWaitsOfTheLargestPeerGivesWay) {
  ConnectionTable table({.max_connections = 4});
  std::vector<int> ended;
  Entries entries;
  AddWaiting(table, "good", 0, ended, entries);
  for (int i = 1; i < 4; ++i) AddWaiting(table, "greedy", i, ended, entries);
  AddWaiting(table, "new", 4, ended, entries);
  EXPECT_EQ(ended, (std::vector<int>{1}));
  AddWaiting(table, "new", 5, ended, entries);
  EXPECT_EQ(ended, (std::vector<int>{1, 2}));
  EXPECT_EQ(table.size(), 4);
  EXPECT_EQ(table.num_evicted(), 2);
}

TEST(ConnectionTableTest, RequestsThatAreServedStay) {
  ConnectionTable table({.max_connections = 2});
  std::vector<int> ended;
  Entries entries;
  AddWaiting(table, "a", 0, ended, entries);
  AddWaiting(table, "a", 1, ended, entries);
  for (const auto& entry : entries) entry->SetWaiting(false);
  EXPECT_EQ(table.Add("b", [] {}), nullptr);
  EXPECT_FALSE(table.EvictOne());
  entries[1]->SetWaiting(true);
  AddWaiting(table, "b", 2, ended, entries);
  EXPECT_EQ(ended, (std::vector<int>{1}));
}

TEST(ConnectionTableTest, WaitingRequestsHoldNoMoreThanTheirBytes) {
  ConnectionTable table({.max_connections = 100, .max_waiting_bytes = 1000});
  std::vector<int> ended;
  Entries entries;
  for (int i = 0; i < 3; ++i) {
    AddWaiting(table, "greedy", i, ended, entries);
    EXPECT_TRUE(entries.back()->SetBytes(300));
  }
  AddWaiting(table, "good", 3, ended, entries);
  EXPECT_TRUE(entries.back()->SetBytes(200));
  EXPECT_EQ(ended, (std::vector<int>{0}));
  EXPECT_FALSE(entries[0]->SetBytes(400));  // it was asked to end
  EXPECT_FALSE(entries[1]->SetBytes(900));  // the oldest of the largest: it gives way itself
  entries[2]->SetBytes(0);
}

TEST(ConnectionTableTest, ForgetsConnectionsThatEnd) {
  ConnectionTable table({.max_connections = 1, .max_waiting_bytes = 10});
  for (int i = 0; i < 5; ++i) {
    auto entry = table.Add("a", [] {});
    ASSERT_NE(entry, nullptr);
    EXPECT_TRUE(entry->SetBytes(10));
  }
  EXPECT_EQ(table.size(), 0);
}

TEST(PeerOfTest, IsAnAddressOrWhatOneSubscriberHas) {
  EXPECT_EQ(PeerOf("192.0.2.1"), "192.0.2.1");
  EXPECT_EQ(PeerOf("2001:db8:1:2:3:4:5:6"), PeerOf("2001:db8:1:2::9"));
  EXPECT_NE(PeerOf("2001:db8:1:2::1"), PeerOf("2001:db8:1:3::1"));
  EXPECT_EQ(PeerOf("::1"), PeerOf("::2"));
}

}  // namespace
}  // namespace sluice::http
