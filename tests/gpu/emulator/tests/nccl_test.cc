// The stand-in for NCCL between emulated GPUs: what it exchanges, and that it refuses what NCCL's
// documentation forbids. Ranks are threads here, each with a stream of the one GPU.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

namespace sluice::cuda {
namespace {

constexpr size_t kBytes = 24;  // that a rank sends to each

struct Rank {
  int rank = 0, size = 0;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  unsigned char* sent = nullptr;      // a part for each rank
  unsigned char* received = nullptr;  // the same

  ncclResult_t State() const {
    ncclResult_t state = ncclSuccess;
    EXPECT_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess);
    return state;
  }
  ncclResult_t Settled() const {
    ncclResult_t state = State();
    while (state == ncclInProgress) {
      std::this_thread::yield();
      state = State();
    }
    return state;
  }
  ncclResult_t AllGather(size_t bytes = kBytes) const {
    return ncclAllGather(sent, received, bytes, ncclInt8, comm, stream);
  }
  ncclResult_t AllToAll() const {
    EXPECT_EQ(ncclGroupStart(), ncclSuccess);
    for (int peer = 0; peer < size; ++peer) {
      ncclSend(sent + peer * kBytes, kBytes, ncclInt8, peer, comm, stream);
      ncclRecv(received + peer * kBytes, kBytes, ncclInt8, peer, comm, stream);
    }
    return ncclGroupEnd();
  }
};

unsigned char Byte(int from, size_t index) { return static_cast<unsigned char>(50 * from + index); }

// Runs `act` on each of the ranks of a group, which have begun to meet.
void OnRanks(int size, const std::function<void(Rank&)>& act) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  std::vector<std::thread> threads;
  for (int number = 0; number < size; ++number) {
    threads.emplace_back([&, number] {
      Rank rank{.rank = number, .size = size};
      void* memory = nullptr;
      ASSERT_EQ(cudaMalloc(&memory, 2 * size * kBytes), cudaSuccess);
      rank.sent = static_cast<unsigned char*>(memory);
      rank.received = rank.sent + size * kBytes;
      for (size_t i = 0; i < size * kBytes; ++i) rank.sent[i] = Byte(number, i);
      ASSERT_EQ(cudaStreamCreateWithFlags(&rank.stream, cudaStreamNonBlocking), cudaSuccess);
      ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
      config.blocking = 0;
      ASSERT_EQ(ncclCommInitRankConfig(&rank.comm, size, id, number, &config), ncclInProgress);
      act(rank);
      EXPECT_EQ(ncclCommAbort(rank.comm), ncclSuccess);
      EXPECT_EQ(cudaStreamDestroy(rank.stream), cudaSuccess);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void ExpectPart(const Rank& rank, int from, size_t offset) {
  for (size_t i = 0; i < kBytes; ++i) {
    ASSERT_EQ(rank.received[from * kBytes + i], Byte(from, offset + i)) << from << ", " << i;
  }
}

TEST(EmulatedNcclTest, GathersAndExchangesBehindWhatWasEnqueued) {
  OnRanks(3, [](Rank& rank) {
    ASSERT_EQ(rank.Settled(), ncclSuccess);
    for (int round = 0; round < 3; ++round) {
      ASSERT_EQ(cudaMemsetAsync(rank.received, 0, rank.size * kBytes, rank.stream), cudaSuccess);
      ASSERT_EQ(rank.AllGather(), ncclInProgress);
      ASSERT_EQ(rank.Settled(), ncclSuccess);
      ASSERT_EQ(cudaStreamSynchronize(rank.stream), cudaSuccess);
      for (int from = 0; from < rank.size; ++from) ExpectPart(rank, from, 0);
      ASSERT_EQ(rank.AllToAll(), ncclInProgress);
      ASSERT_EQ(rank.Settled(), ncclSuccess);
      ASSERT_EQ(cudaStreamSynchronize(rank.stream), cudaSuccess);
      for (int from = 0; from < rank.size; ++from) ExpectPart(rank, from, rank.rank * kBytes);
    }
  });
}

TEST(EmulatedNcclTest, RecordedExchangesAreCarriedOutAgain) {
  OnRanks(2, [](Rank& rank) {
    ASSERT_EQ(rank.Settled(), ncclSuccess);
    ASSERT_EQ(cudaStreamBeginCapture(rank.stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    ASSERT_EQ(rank.AllGather(), ncclInProgress);
    ASSERT_EQ(rank.Settled(), ncclSuccess);
    cudaGraph_t graph = nullptr;
    ASSERT_EQ(cudaStreamEndCapture(rank.stream, &graph), cudaSuccess);
    cudaGraphExec_t recorded = nullptr;
    ASSERT_EQ(cudaGraphInstantiate(&recorded, graph, 0), cudaSuccess);
    cudaGraphDestroy(graph);
    for (int round = 0; round < 3; ++round) {
      ASSERT_EQ(cudaMemsetAsync(rank.received, 0, rank.size * kBytes, rank.stream), cudaSuccess);
      ASSERT_EQ(cudaGraphLaunch(recorded, rank.stream), cudaSuccess);
      ASSERT_EQ(cudaStreamSynchronize(rank.stream), cudaSuccess);
      for (int from = 0; from < rank.size; ++from) ExpectPart(rank, from, 0);
    }
    cudaGraphExecDestroy(recorded);
  });
}

TEST(EmulatedNcclTest, CallBeforeTheRanksHaveMetIsInvalid) {
  OnRanks(1, [](Rank& rank) {
    ncclUniqueId id;
    ncclGetUniqueId(&id);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    Rank alone = rank;
    ASSERT_EQ(ncclCommInitRankConfig(&alone.comm, 2, id, 0, &config), ncclInProgress);
    EXPECT_EQ(alone.State(), ncclInProgress);
    EXPECT_EQ(alone.AllGather(), ncclInvalidUsage);
    EXPECT_EQ(alone.State(), ncclInvalidUsage);
    EXPECT_STREQ(ncclGetLastError(alone.comm), "a call before the one before was over");
    EXPECT_EQ(ncclCommAbort(alone.comm), ncclSuccess);
  });
}

TEST(EmulatedNcclTest, CallBeforeTheOneBeforeIsOverIsInvalid) {
  OnRanks(2, [](Rank& rank) {
    ASSERT_EQ(rank.Settled(), ncclSuccess);
    ASSERT_EQ(rank.AllGather(), ncclInProgress);
    EXPECT_EQ(rank.AllGather(), ncclInvalidUsage);
  });
}

TEST(EmulatedNcclTest, BlockingGroupsAndOpenEndedSendsAreInvalid) {
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  ncclConfig_t blocking = NCCL_CONFIG_INITIALIZER;
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitRankConfig(&comm, 1, id, 0, &blocking), ncclInvalidUsage);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
  OnRanks(1, [](Rank& rank) {
    EXPECT_EQ(ncclSend(rank.sent, kBytes, ncclInt8, 0, rank.comm, rank.stream), ncclInvalidUsage);
  });
}

// What two ranks see in the end where they do not do the same.
void ExpectDifferenceIsSeen(const std::function<void(Rank&)>& first,
                            const std::function<void(Rank&)>& second) {
  OnRanks(2, [&](Rank& rank) {
    ASSERT_EQ(rank.Settled(), ncclSuccess);
    (rank.rank == 0 ? first : second)(rank);
    // Whoever comes second sees it, and then both do.
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (rank.State() != ncclInvalidUsage && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::yield();
    }
    EXPECT_EQ(rank.State(), ncclInvalidUsage);
  });
}

TEST(EmulatedNcclTest, RanksThatSendOtherNumbersOfBytesAreTold) {
  ExpectDifferenceIsSeen([](Rank& rank) { rank.AllGather(); },
                         [](Rank& rank) { rank.AllGather(kBytes / 2); });
}

TEST(EmulatedNcclTest, RanksThatCallInAnotherOrderAreTold) {
  ExpectDifferenceIsSeen([](Rank& rank) { rank.AllGather(); }, [](Rank& rank) { rank.AllToAll(); });
}

TEST(EmulatedNcclTest, RecordingOfOneRankAloneIsTold) {
  ExpectDifferenceIsSeen(
      [](Rank& rank) { rank.AllGather(); },
      [](Rank& rank) {
        ASSERT_EQ(cudaStreamBeginCapture(rank.stream, cudaStreamCaptureModeThreadLocal),
                  cudaSuccess);
        rank.AllGather();
        cudaGraph_t graph = nullptr;
        ASSERT_EQ(cudaStreamEndCapture(rank.stream, &graph), cudaSuccess);
        cudaGraphDestroy(graph);
      });
}

TEST(EmulatedNcclTest, AbortLetsAStreamGoOnThatWaitsForAPeer) {
  OnRanks(2, [](Rank& rank) {
    ASSERT_EQ(rank.Settled(), ncclSuccess);
    if (rank.rank == 1) return;
    for (int call = 0; call < 4; ++call) {
      ASSERT_EQ(rank.AllGather(), ncclInProgress);
      ASSERT_EQ(rank.Settled(), ncclSuccess);
    }
  });  // destroys the stream, which would wait
}

}  // namespace
}  // namespace sluice::cuda
