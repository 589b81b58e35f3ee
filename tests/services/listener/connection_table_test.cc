// Which connections make room, and which have taken too much: by virtual time, without sockets.
#include "services/listener/connection_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

using Id = ConnectionTable::Id;

constexpr int kMostStreams = 100;
constexpr ListenerLimits kLimits = {
    .connections = 8, .connections_per_host = 4, .streams = 300, .held_bytes = 1 << 20};

class ConnectionTableTest : public ::testing::Test {
 protected:
  Id Add(const std::string& host) {
    const ConnectionTable::Arrival arrival = table_.Add(host, now_);
    displaced_ = arrival.displaced;
    return arrival.id;
  }
  Id AddAdmitted(const std::string& host) {
    const Id id = Add(host);
    table_.Admit(id);
    return id;
  }
  // A connection of `host` that waits.
  Id AddWaiting(const std::string& host) { return table_.Add(host, now_).id; }
  // Those that are served now, in order.
  std::vector<Id> BeginAll() {
    std::vector<Id> begun;
    displaced_ = 0;
    while (true) {
      const ConnectionTable::Begin next = table_.BeginNext(now_);
      if (next.displaced != 0) displaced_ = next.displaced;
      if (next.id != 0) begun.push_back(next.id);
      if (next.id == 0 && next.displaced == 0) return begun;
    }
  }
  const char* Received(Id id, uint64_t total) { return table_.OnReceived(id, total, now_); }
  const char* Streams(Id id, const ConnectionTable::Streams& streams) {
    return table_.OnStreams(id, streams, now_);
  }

  explicit ConnectionTableTest(const ListenerLimits& limits = kLimits)
      : table_(limits, kMostStreams) {}

  ConnectionTable table_;
  absl::Duration now_ = absl::Hours(1);
  Id displaced_ = 0;
};

TEST_F(ConnectionTableTest, HostMakesRoomWithItsOwnOldestThatIsNotAdmitted) {
  const Id first = Add("a");
  Add("b");
  for (int i = 0; i < 3; ++i) Add("a");
  EXPECT_EQ(displaced_, 0);
  now_ += absl::Minutes(1);
  EXPECT_NE(Add("a"), 0);
  EXPECT_EQ(displaced_, first);
  EXPECT_EQ(table_.size(), 5);
}

TEST_F(ConnectionTableTest, HostThatHasManyMakesRoomForOthers) {
  for (int i = 0; i < 3; ++i) Add("quiet");
  const Id oldest_of_busy = Add("busy");
  for (int i = 0; i < 3; ++i) Add("busy");
  Add("third");
  EXPECT_EQ(displaced_, 0);
  EXPECT_NE(Add("good"), 0);
  EXPECT_EQ(displaced_, oldest_of_busy);
}

TEST_F(ConnectionTableTest, AdmittedConnectionsStay) {
  for (int i = 0; i < 4; ++i) AddAdmitted("a");
  now_ += absl::Minutes(1);
  const ConnectionTable::Arrival more = table_.Add("a", now_);
  EXPECT_EQ(more.id, 0);
  EXPECT_STREQ(more.refusal, "its host has too many connections");
  for (int i = 0; i < 4; ++i) AddAdmitted(absl::StrCat("b", i));
  EXPECT_STREQ(table_.Add("c", now_).refusal, "there are too many connections");
  EXPECT_EQ(table_.size(), 8);
}

TEST_F(ConnectionTableTest, HostThatConnectsTooOftenWaits) {
  for (int i = 0; i < 8; ++i) table_.Remove(Add("a"));
  EXPECT_STREQ(table_.Add("a", now_).refusal, "its host connects too often");
  EXPECT_NE(Add("b"), 0);
  now_ += absl::Seconds(1);
  EXPECT_NE(Add("a"), 0);
}

TEST_F(ConnectionTableTest, SendsLittleBeforeItIsAdmitted) {
  const Id stranger = Add("a");
  EXPECT_EQ(Received(stranger, 200 << 10), nullptr);
  EXPECT_EQ(Received(stranger, 300 << 10), nullptr);
  now_ += absl::Milliseconds(200);
  EXPECT_STREQ(Received(stranger, 300 << 10), "it sends too much before it is authenticated");
  const Id quick = Add("b");
  EXPECT_STREQ(Received(quick, 5 << 20), "it sends too much before it is authenticated");
  const Id known = AddAdmitted("a");
  EXPECT_EQ(Received(known, 300 << 10), nullptr);
}

// Its first call waits for a thread while the others arrive.
TEST_F(ConnectionTableTest, ALargeFirstMessageAdmitsWhereNothingHasToBeProved) {
  const Id id = Add("a");
  table_.ExpectMessage(id);
  EXPECT_EQ(Received(id, 100 << 10), nullptr);
  EXPECT_FALSE(table_.IsAdmitted(id));
  EXPECT_EQ(Received(id, 300 << 10), nullptr);
  EXPECT_TRUE(table_.IsAdmitted(id));
  now_ += absl::Seconds(10);
  EXPECT_EQ(Received(id, 20 << 20), nullptr);  // all of the message has not come yet

  const Id stranger = Add("b");  // no service expects anything of it
  Received(stranger, 300 << 10);
  now_ += absl::Seconds(1);
  EXPECT_NE(Received(stranger, 5 << 20), nullptr);
}

TEST_F(ConnectionTableTest, ClientThatBeginsWithMuchIsNotTakenForAStranger) {
  const Id client = Add("a");
  EXPECT_EQ(Received(client, 2 << 20), nullptr);
  EXPECT_EQ(Streams(client, {.started = 100}), nullptr);
  now_ += absl::Milliseconds(100);
  table_.Admit(client);
  now_ += absl::Minutes(1);
  EXPECT_EQ(Received(client, 3 << 20), nullptr);
  EXPECT_EQ(Streams(client, {.started = 100}), nullptr);
}

TEST_F(ConnectionTableTest, SmallCallsOfAStrangerGoOnForEver) {
  const Id probe = Add("a");
  uint64_t total = 0;
  for (int i = 0; i < 10'000; ++i) {
    now_ += absl::Milliseconds(10);
    ASSERT_EQ(Received(probe, total += 300), nullptr) << "after " << i;
  }
}

TEST_F(ConnectionTableTest, WhatHandlersReadIsNotHeld) {
  const Id id = Add("a");
  uint64_t total = 0;
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(Received(id, total += 100 << 10), nullptr) << "after " << i;
    table_.CountMessage(id, 100 << 10);
  }
}

TEST_F(ConnectionTableTest, LargestHolderGoesWhereAllHoldTooMuch) {
  const Id good = AddAdmitted("good");
  const Id greedy = AddAdmitted("greedy");
  Received(good, 300 << 10);
  Received(greedy, 600 << 10);
  EXPECT_EQ(table_.FindExcess(now_).id, 0);
  Received(greedy, 800 << 10);
  EXPECT_EQ(table_.FindExcess(now_).id, greedy);
  table_.CountMessage(greedy, 800 << 10);
  EXPECT_EQ(table_.FindExcess(now_).id, 0);
}

TEST_F(ConnectionTableTest, StreamsHaveABoundThatIsLowerForStrangers) {
  const Id stranger = Add("a");
  EXPECT_EQ(Streams(stranger, {.started = 70, .ended = 10}), nullptr);
  EXPECT_EQ(Streams(stranger, {.started = 90, .ended = 10}), nullptr);
  now_ += absl::Milliseconds(200);
  EXPECT_STREQ(Streams(stranger, {.started = 90, .ended = 10}),
               "it has too many streams before it is authenticated");
  const Id known = AddAdmitted("a");
  EXPECT_EQ(Streams(known, {.started = 110, .ended = 10}), nullptr);
  EXPECT_STREQ(Streams(known, {.started = 300, .ended = 10}), "it has too many streams");
}

TEST_F(ConnectionTableTest, MostStreamsGoWhereThereAreTooMany) {
  std::vector<Id> ids;
  for (int i = 0; i < 4; ++i) ids.push_back(AddAdmitted(absl::StrCat("host", i)));
  for (int i = 0; i < 3; ++i) Streams(ids[i], {.started = 90});
  EXPECT_EQ(table_.FindExcess(now_).id, 0);
  Streams(ids[3], {.started = 100});
  EXPECT_EQ(table_.FindExcess(now_).id, ids[3]);
}

TEST_F(ConnectionTableTest, ClientMayLeaveAllItsCallsAtOnceButNotAgainAndAgain) {
  const Id id = AddAdmitted("a");
  EXPECT_EQ(Streams(id, {.started = 100, .ended = 100, .failed = 100}), nullptr);
  EXPECT_EQ(Streams(id, {.started = 200, .ended = 200, .failed = 200}), nullptr);
  EXPECT_STREQ(Streams(id, {.started = 300, .ended = 300, .failed = 300}),
               "it resets too many streams");
}

TEST_F(ConnectionTableTest, ResetsOfAHostCountOnItsNextConnectionsToo) {
  for (int i = 0; i < 2; ++i) {
    const Id id = AddAdmitted("bad");
    EXPECT_NE(Streams(id, {.started = 250, .ended = 250, .failed = 250}), nullptr);
    table_.Remove(id);
  }
  const Id next = AddAdmitted("bad");
  EXPECT_EQ(Streams(next, {.started = 50, .ended = 50, .failed = 50}), nullptr);
  EXPECT_STREQ(Streams(next, {.started = 120, .ended = 120, .failed = 120}),
               "it resets too many streams");
  const Id other = AddAdmitted("good");
  EXPECT_EQ(Streams(other, {.started = 120, .ended = 120, .failed = 120}), nullptr);
  now_ += absl::Minutes(1);
  EXPECT_EQ(Streams(next, {.started = 200, .ended = 200, .failed = 200}), nullptr);
}

class ConnectionPaceTest : public ConnectionTableTest {
 protected:
  ConnectionPaceTest()
      : ConnectionTableTest({.connections = 1000,
                             .connections_per_host = 500,
                             .streams = 100'000,
                             .held_bytes = 64 << 20}) {}
};

TEST_F(ConnectionPaceTest, HostIsServedAFewStrangersAtATime) {
  for (int i = 0; i < 100; ++i) AddWaiting("bad");
  const std::vector<Id> begun = BeginAll();
  EXPECT_EQ(begun.size(), 4);
  EXPECT_EQ(table_.num_waiting(), 96);
  EXPECT_EQ(BeginAll().size(), 0);
  // Another's does not wait for them.
  const Id good = AddWaiting("good");
  EXPECT_EQ(BeginAll(), std::vector<Id>{good});
  // They are known by what has come of them, and by what they prove.
  for (const Id id : begun) Received(id, 500);
  EXPECT_EQ(BeginAll().size(), 3);
  for (const Id id : begun) table_.Admit(id);
  EXPECT_EQ(BeginAll().size(), 1);
}

TEST_F(ConnectionPaceTest, ClientsThatProveWhoTheyAreDoNotWait) {
  for (int i = 0; i < 400; ++i) {
    const Id id = AddWaiting("proxy");
    ASSERT_EQ(BeginAll(), std::vector<Id>{id}) << "after " << i;
    Received(id, 900);
    Streams(id, {.started = 5});
    table_.Admit(id);
    for (int message = 0; message < 5; ++message) table_.CountMessage(id, 100);
    Streams(id, {.started = 5});
    now_ += absl::Milliseconds(2);
  }
}

// 100,000 streams of 100 connections, each closed when it is looked at.
TEST_F(ConnectionPaceTest, StreamsOfStrangersHaveARate) {
  for (int i = 0; i < 100; ++i) AddWaiting("bad");
  double streams = 0;
  for (int i = 0; i < 2000; ++i) {
    for (const Id id : BeginAll()) {
      Received(id, 16'000);
      EXPECT_NE(Streams(id, {.started = 1001}), nullptr);
      streams += 1001;
      table_.Remove(id);
    }
    now_ += absl::Milliseconds(5);
  }
  EXPECT_GE(streams, 2000);
  EXPECT_LE(streams, 4 * 1001 + 10 * 300 + 1001);
}

TEST_F(ConnectionPaceTest, StreamsOfAllStrangersHaveARateToo) {
  double streams = 0;
  for (int i = 0; i < 2000; ++i) {
    AddWaiting(absl::StrCat("host", i));
    for (const Id id : BeginAll()) {
      Received(id, 16'000);
      Streams(id, {.started = 1001});
      streams += 1001;
      table_.Remove(id);
    }
    now_ += absl::Milliseconds(5);
  }
  EXPECT_LE(streams, 8192 + 10 * 2048 + 2 * 1001);
}

TEST_F(ConnectionPaceTest, ThoseThatSayNothingMakeRoomAfterASecond) {
  for (int i = 0; i < 40; ++i) AddWaiting("idle");
  std::vector<Id> begun;
  for (int i = 0; i < 100; ++i) {
    for (const Id id : BeginAll()) begun.push_back(id);
    for (const Id id : begun) Received(id, 100);
    now_ += absl::Milliseconds(5);
  }
  EXPECT_EQ(begun.size(), 13);  // what is left of 1024 is less than another one may take
  EXPECT_EQ(displaced_, 0);
  const Id next = AddWaiting("idle");
  now_ += absl::Milliseconds(600);
  bool is_served = false;
  for (int i = 0; i < 2000 && !is_served; ++i) {
    for (const Id id : BeginAll()) {
      is_served = is_served || id == next;
      Received(id, 100);
    }
    now_ += absl::Milliseconds(5);
  }
  EXPECT_TRUE(is_served);
}

TEST_F(ConnectionPaceTest, IdleOnesOfManyHostsMakeRoomForAnother) {
  std::vector<Id> begun;
  for (int i = 0; i < 300; ++i) {
    const Id id = AddWaiting(absl::StrCat("host", i % 30));
    for (const Id next : BeginAll()) begun.push_back(next);
    for (const Id next : begun) Received(next, 100);
    EXPECT_NE(id, 0);
  }
  EXPECT_LE(begun.size(), 128);
  const Id good = AddWaiting("good");
  EXPECT_EQ(BeginAll().size(), 0);
  now_ += absl::Seconds(2);
  for (int i = 0; i < 1000 && std::find(begun.begin(), begun.end(), good) == begun.end(); ++i) {
    for (const Id next : BeginAll()) begun.push_back(next);
    for (const Id next : begun) Received(next, 100);
    now_ += absl::Milliseconds(5);
  }
  EXPECT_NE(std::find(begun.begin(), begun.end(), good), begun.end());
}

TEST_F(ConnectionPaceTest, CallsWithoutAMessageOnAnAdmittedConnectionAreStreamsOfStrangers) {
  const Id id = AddWaiting("bad");
  BeginAll();
  table_.Admit(id);
  table_.CountMessage(id, 100);
  EXPECT_EQ(Streams(id, {.started = 90}), nullptr);
  EXPECT_EQ(Streams(id, {.started = 2000, .ended = 1950}), nullptr);
  AddWaiting("bad");
  EXPECT_EQ(BeginAll().size(), 0);
  now_ += absl::Milliseconds(900);
  EXPECT_EQ(Streams(id, {.started = 2000, .ended = 1950}), nullptr);
  now_ += absl::Milliseconds(200);
  EXPECT_STREQ(Streams(id, {.started = 2000, .ended = 1950}),
               "it begins too many calls without a message");
  // Their messages come late where there are very many at once.
  const Id good = AddWaiting("good");
  BeginAll();
  table_.Admit(good);
  EXPECT_EQ(Streams(good, {.started = 3000, .ended = 2950}), nullptr);
  now_ += absl::Milliseconds(900);
  table_.CountMessage(good, 100);
  EXPECT_EQ(Streams(good, {.started = 3000, .ended = 2950}), nullptr);
  now_ += absl::Milliseconds(900);
  EXPECT_EQ(Streams(good, {.started = 3000, .ended = 2950}), nullptr);
}

TEST_F(ConnectionTableTest, HostsThatAreGoneAreForgotten) {
  for (int i = 0; i < 100'000; ++i) {
    table_.Remove(Add(absl::StrCat("host", i)));
    now_ += absl::Milliseconds(10);
  }
  EXPECT_EQ(table_.size(), 0);
  EXPECT_LE(table_.num_hosts(), 4097);
}

}  // namespace
}  // namespace sluice
