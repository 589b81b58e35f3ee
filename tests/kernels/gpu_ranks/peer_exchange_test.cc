#include "kernels/gpu_ranks/peer_exchange.h"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "kernels/gpu_ranks/peer_member.h"
#include "tests/kernels/gpu_ranks/stub_communicator.h"

namespace sluice {
namespace {

// A stream whose work is done one piece at a time, when the test says so.
class SteppedStream final : public PeerStream {
 public:
  absl::Status Copy(const void* from, void* to, size_t bytes) override {
    work_.push_back([=] {
      std::memcpy(to, from, bytes);
      return true;
    });
    return absl::OkStatus();
  }
  absl::Status Await(PeerFlag& flag) override {
    if (awaits_everything_ || &flag != ignored_) {
      work_.push_back([&flag] {
        if (flag.value != 1) return false;
        flag.value = 0;
        return true;
      });
    }
    return absl::OkStatus();
  }
  absl::Status Set(PeerFlag& flag) override {
    work_.push_back([&flag] {
      flag.value = 1;
      return true;
    });
    return absl::OkStatus();
  }

  bool empty() const { return work_.empty(); }
  // Does the next piece; false where it waits for a flag.
  bool Step() {
    if (!work_.front()()) return false;
    work_.pop_front();
    return true;
  }
  void Ignore(const PeerFlag* flag) {
    awaits_everything_ = false;
    ignored_ = flag;
  }

 private:
  std::deque<std::function<bool()>> work_;
  bool awaits_everything_ = true;
  const PeerFlag* ignored_ = nullptr;
};

using Bytes = std::vector<std::byte>;

// Ranks whose streams advance in random order.
class World {
 public:
  World(int size, size_t slot_bytes, unsigned seed) : random_(seed) {
    for (int rank = 0; rank < size; ++rank) {
      memory_.push_back(std::make_unique<Bytes>(slot_bytes, std::byte{0xee}));
      flags_.push_back(std::make_unique<PeerFlags>());
      PeerExchange::Initialise(*flags_.back());
    }
    for (int rank = 0; rank < size; ++rank) {
      streams_.push_back(std::make_unique<SteppedStream>());
      exchanges_.push_back(std::make_unique<PeerExchange>(places(rank), *streams_.back()));
    }
  }

  PeerPlaces places(int rank) const {
    PeerPlaces places{.rank = rank, .slot_bytes = memory_[0]->size()};
    for (size_t peer = 0; peer < memory_.size(); ++peer) {
      places.slots.push_back(memory_[peer]->data());
      places.flags.push_back(flags_[peer].get());
    }
    return places;
  }

  int size() const { return static_cast<int>(streams_.size()); }
  PeerExchange& rank(int r) { return *exchanges_[r]; }
  SteppedStream& stream(int r) { return *streams_[r]; }
  PeerFlags& flags(int r) { return *flags_[r]; }
  std::mt19937& random() { return random_; }

  // Runs the streams of `ranks` in random order until all are empty; false where all of those that
  // are not wait for ever.
  bool Run(std::vector<int> ranks) {
    int waiting = 0;
    while (!ranks.empty()) {
      const size_t pick = random_() % ranks.size();
      SteppedStream& chosen = stream(ranks[pick]);
      if (chosen.empty()) {
        ranks.erase(ranks.begin() + pick);
        waiting = 0;
      } else if (chosen.Step()) {
        waiting = 0;
      } else if (++waiting > 1000) {
        return false;
      }
    }
    return true;
  }
  bool Run() {
    std::vector<int> all(size());
    for (int rank = 0; rank < size(); ++rank) all[rank] = rank;
    return Run(all);
  }

 private:
  std::mt19937 random_;
  std::vector<std::unique_ptr<Bytes>> memory_;
  std::vector<std::unique_ptr<PeerFlags>> flags_;
  std::vector<std::unique_ptr<SteppedStream>> streams_;
  std::vector<std::unique_ptr<PeerExchange>> exchanges_;
};

std::byte PeerPattern(int call, int from, size_t index) {
  return static_cast<std::byte>(31 * call + 7 * from + index);
}

// What every rank sends and receives in one call of a step.
struct Call {
  bool to_all = false;
  size_t part = 0;
  std::vector<Bytes> sent, received;  // by rank

  static Call Random(World& world, size_t slot_bytes, int number) {
    Call call{.to_all = world.random()() % 2 == 0};
    const size_t most = call.to_all ? slot_bytes / world.size() : slot_bytes;
    call.part = 1 + world.random()() % most;
    for (int rank = 0; rank < world.size(); ++rank) {
      Bytes bytes(call.to_all ? call.part * world.size() : call.part);
      for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = PeerPattern(number, rank, i);
      call.sent.push_back(bytes);
      call.received.emplace_back(call.part * world.size());
    }
    return call;
  }

  absl::Status Enqueue(World& world, int rank) {
    PeerExchange& exchange = world.rank(rank);
    return to_all ? exchange.AllToAll(sent[rank], absl::MakeSpan(received[rank]))
                  : exchange.AllGather(sent[rank], absl::MakeSpan(received[rank]));
  }

  bool IsRight(int rank) const {
    for (size_t from = 0; from < sent.size(); ++from) {
      const std::byte* expected = sent[from].data() + (to_all ? rank * part : 0);
      if (std::memcmp(received[rank].data() + from * part, expected, part) != 0) return false;
    }
    return true;
  }
};

// Steps of random calls, each rank enqueueing its own whenever it likes. Whether all was received.
bool RunSteps(World& world, size_t slot_bytes, int steps) {
  bool right = true;
  int number = 0;
  for (int step = 0; step < steps; ++step) {
    std::vector<Call> calls;
    const int count = 1 + static_cast<int>(world.random()() % 5);
    for (int i = 0; i < count; ++i) calls.push_back(Call::Random(world, slot_bytes, ++number));
    for (int rank = 0; rank < world.size(); ++rank) {
      for (Call& call : calls) EXPECT_TRUE(call.Enqueue(world, rank).ok());
    }
    if (!world.Run()) return false;
    for (const Call& call : calls) {
      for (int rank = 0; rank < world.size(); ++rank) right = right && call.IsRight(rank);
    }
  }
  return right;
}

TEST(PeerExchange, DeliversInAnyOrderOfEvents) {
  for (const int size : {2, 3, 4, 8}) {
    for (unsigned seed = 0; seed < 50; ++seed) {
      World world(size, /*slot_bytes=*/64, seed);
      ASSERT_TRUE(RunSteps(world, 64, 10)) << size << " ranks, seed " << seed;
    }
  }
}

// Every wait is needed: without any one of them some order of events spoils bytes or hangs.
TEST(PeerExchange, NoWaitCanBeLeftOut) {
  for (const bool is_filled : {true, false}) {
    bool seen = false;
    for (unsigned seed = 0; seed < 200 && !seen; ++seed) {
      World world(2, 64, seed);
      PeerFlags& own = world.flags(0);
      world.stream(0).Ignore(is_filled ? &own.filled[1] : &own.read[1]);
      seen = !RunSteps(world, 64, 10);
    }
    EXPECT_TRUE(seen) << (is_filled ? "filled" : "read");
  }
}

// A rank that has died sets nothing. Whoever waits for it is let through by its own host.
TEST(PeerExchange, ReleaseEmptiesAStreamWhosePeerIsGone) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    World world(4, 64, seed);
    std::vector<Call> calls;
    for (int i = 0; i < 6; ++i) calls.push_back(Call::Random(world, 64, i));
    for (int rank = 0; rank < 4; ++rank) {
      for (Call& call : calls) ASSERT_TRUE(call.Enqueue(world, rank).ok());
    }
    // It dies somewhere on its way.
    for (unsigned steps = world.random()() % 20; steps > 0 && !world.stream(3).empty(); --steps) {
      world.stream(3).Step();
    }
    EXPECT_FALSE(world.Run({0, 1, 2}));
    for (int rank : {0, 1, 2}) {
      for (int looks = 0; !world.stream(rank).empty() && looks < 1000; ++looks) {
        world.rank(rank).Release();
        while (!world.stream(rank).empty() && world.stream(rank).Step()) {
        }
      }
      EXPECT_TRUE(world.stream(rank).empty()) << "rank " << rank << ", seed " << seed;
    }
  }
}

// The host waits for a stream that waits for a peer: looking at it ends the wait.
TEST(PeerMember, LooksUntilTheStreamIsEmpty) {
  for (const bool is_late : {false, true}) {
    World world(2, 64, 1);
    SteppedStream stream;
    testing::StubCommunicator communicator;
    PeerMember member(world.places(0), stream, communicator);
    Bytes sent(8), received(16);
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(member.AllGather(sent, absl::MakeSpan(received)).ok());
    const auto run = [&] {
      while (!stream.empty() && stream.Step()) {
      }
    };
    run();
    EXPECT_TRUE(member.Look().ok());
    run();
    EXPECT_FALSE(stream.empty());
    if (is_late) {
      member.SetDeadline(Deadline::After(absl::ZeroDuration()));
    } else {
      communicator.health = absl::UnavailableError("rank 1 has died");
    }
    const absl::Status told = member.Look();
    EXPECT_EQ(told.code(),
              is_late ? absl::StatusCode::kDeadlineExceeded : absl::StatusCode::kUnavailable);
    for (int looks = 0; !stream.empty() && looks < 100; ++looks) {
      run();
      EXPECT_TRUE(member.Look().ok()) << "told before";
    }
    EXPECT_TRUE(stream.empty());
    EXPECT_EQ(member.AllGather(sent, absl::MakeSpan(received)), told);
    EXPECT_TRUE(stream.empty());
  }
}

TEST(PeerExchange, RefusesWhatDoesNotFitASlot) {
  World world(2, 64, 1);
  const Bytes sent(65);
  Bytes received(130);
  EXPECT_EQ(world.rank(0).AllGather(sent, absl::MakeSpan(received)).code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(world.stream(0).empty());
}

}  // namespace
}  // namespace sluice
