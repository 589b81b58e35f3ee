// Many groups of ranks on one host that begin at the same moment, with equal shapes, epochs and
// models: pipelines of one user. Ranks come in any order, stop in the middle, and some are sent to
// the meeting point of another group. Whatever happens, no rank ever reads a byte of another group.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "kernels/communicator/local_communicator.h"
#include "kernels/communicator/memory_rendezvous_store.h"
#include "kernels/communicator/shm_communicator.h"
#include "kernels/communicator/tcp/tcp_communicator.h"
#include "tests/kernels/communicator_ranks.h"
#include "tests/kernels/testing/emulator.h"

namespace sluice::testing {
namespace {

constexpr int kNumGroups = 4;
constexpr int kNumCalls = 6;
constexpr absl::Duration kLongest = absl::Seconds(60);
// For ranks that were sent to another group: that group may be complete before they come.
constexpr absl::Duration kShort = absl::Milliseconds(50);

// What rank `rank` of group `group` sends in call `call`.
std::uint32_t ValueOf(int group, int rank, int call, std::size_t index) {
  return static_cast<std::uint32_t>(((group * 64 + rank) * 64 + call) * 8192) +
         static_cast<std::uint32_t>(index);
}

// What a rank is to do, drawn beforehand.
struct RankPlan {
  int group = 0;
  int rank = 0;
  int meets_at = 0;  // the group whose meeting point it is sent to
  int num_yields = 0;
  int leaves_after = kNumCalls;  // calls
};

struct GroupPlan {
  std::string name;
  WiringIdentity wiring;
  MemoryRendezvousStore store;
  std::stop_source stop;  // as an orchestrator tells the others once a rank has failed
  bool is_foreign_rank_zero_here = false;
  bool is_disturbed = false;  // a rank is sent elsewhere, leaves early, or comes from elsewhere
};

struct Scene {
  Transport transport;
  int size;
  std::vector<std::unique_ptr<GroupPlan>> groups;
  std::vector<RankPlan> ranks;
};

Scene DrawScene(std::uint32_t seed) {
  std::mt19937 random(seed);
  Scene scene{.transport = random() % 2 == 0 ? Transport::kShm : Transport::kTcp,
              .size = 1 << random() % 3,
              .groups = {},
              .ranks = {}};
  for (int group = 0; group < kNumGroups; ++group) {
    auto& plan = *scene.groups.emplace_back(std::make_unique<GroupPlan>());
    plan.name = UniqueGroupName();
    plan.wiring = *WiringIdentity::Make(DrawWiringNonce(), 1, "model");
  }
  for (int group = 0; group < kNumGroups; ++group) {
    for (int rank = 0; rank < scene.size; ++rank) {
      RankPlan plan = {.group = group, .rank = rank, .meets_at = group};
      plan.num_yields = static_cast<int>(random() % 50);
      if (scene.size > 1 && random() % 10 == 0)
        plan.meets_at = static_cast<int>(random() % kNumGroups);
      if (random() % 20 == 0) plan.leaves_after = static_cast<int>(random() % kNumCalls);
      const bool is_foreign = plan.meets_at != group;
      if (is_foreign || plan.leaves_after < kNumCalls) scene.groups[group]->is_disturbed = true;
      GroupPlan& there = *scene.groups[plan.meets_at];
      if (is_foreign && rank == 0) there.is_foreign_rank_zero_here = true;
      // In a store, which a foreign rank has been let into, two ranks claim one key.
      if (is_foreign && scene.transport == Transport::kTcp) there.is_disturbed = true;
      scene.ranks.push_back(plan);
    }
  }
  for (const auto& group : scene.groups) group->is_disturbed |= group->is_foreign_rank_zero_here;
  std::shuffle(scene.ranks.begin(), scene.ranks.end(), random);
  return scene;
}

absl::StatusOr<std::unique_ptr<Communicator>> Join(Scene& scene, const RankPlan& plan) {
  GroupPlan& own = *scene.groups[plan.group];
  GroupPlan& there = *scene.groups[plan.meets_at];
  const Deadline deadline = Deadline::After(plan.meets_at == plan.group ? kLongest : kShort);
  if (scene.size == 1) return MakeLocalCommunicator(own.wiring);
  if (scene.transport == Transport::kShm) {
    return JoinShm({.name = there.name,
                    .wiring = own.wiring,
                    .rank = plan.rank,
                    .size = scene.size,
                    .slot_bytes = 4096},
                   deadline, own.stop.get_token());
  }
  return JoinTcp({.group = "ranks", .wiring = own.wiring, .rank = plan.rank, .size = scene.size},
                 there.store, deadline, own.stop.get_token());
}

// DATA_LOSS where a value of another group, or another call, came.
absl::Status CallOnce(Communicator& communicator, int group, int call, std::size_t count) {
  const int rank = communicator.rank();
  std::vector<std::uint32_t> sent(count);
  for (std::size_t i = 0; i < count; ++i) sent[i] = ValueOf(group, rank, call, i);
  std::vector<std::uint32_t> received(count * static_cast<std::size_t>(communicator.size()));
  const absl::Status gathered = communicator.AllGather(
      {reinterpret_cast<const std::byte*>(sent.data()), sent.size() * sizeof(sent[0])},
      {reinterpret_cast<std::byte*>(received.data()), received.size() * sizeof(received[0])},
      Deadline::After(kLongest));
  if (!gathered.ok()) return gathered;
  for (std::size_t i = 0; i < received.size(); ++i) {
    const int from = static_cast<int>(i / count);
    if (received[i] == ValueOf(group, from, call, i % count)) continue;
    return absl::DataLossError(absl::StrCat("rank ", rank, " of group ", group, " was sent ",
                                            received[i], " by rank ", from));
  }
  return absl::OkStatus();
}

absl::Status RunRank(Scene& scene, const RankPlan& plan) {
  for (int i = 0; i < plan.num_yields; ++i) std::this_thread::yield();
  const auto communicator = Join(scene, plan);
  if (!communicator.ok()) return communicator.status();
  if (!CheckSameWiring((*communicator)->wiring(), scene.groups[plan.group]->wiring).ok()) {
    return absl::DataLossError("the communicator belongs to another wiring");
  }
  for (int call = 0; call < plan.leaves_after; ++call) {
    const absl::Status called =
        CallOnce(**communicator, plan.group, call, static_cast<std::size_t>(call) * 700 + 3);
    if (!called.ok()) return called;
  }
  return absl::OkStatus();
}

// By rank of the scene.
std::vector<absl::Status> Play(Scene& scene) {
  std::vector<absl::Status> statuses(scene.ranks.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < scene.ranks.size(); ++i) {
    threads.emplace_back([&scene, &statuses, i] {
      const RankPlan& plan = scene.ranks[i];
      statuses[i] = RunRank(scene, plan);
      const bool has_left = !statuses[i].ok() || plan.leaves_after < kNumCalls;
      if (has_left) scene.groups[plan.group]->stop.request_stop();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

TEST(RankGroupsTest, NeverMixThoughRanksAreSentToOtherGroups) {
  const int num_seeds = IsEmulated() ? 10 : 40;
  int num_foreign = 0, num_refused_by_name = 0, num_undisturbed = 0;
  for (int seed = 0; seed < num_seeds; ++seed) {
    Scene scene = DrawScene(static_cast<std::uint32_t>(seed));
    const std::vector<absl::Status> statuses = Play(scene);
    for (std::size_t i = 0; i < statuses.size(); ++i) {
      const RankPlan& plan = scene.ranks[i];
      const std::string who = absl::StrCat("seed ", seed, ", ", Name(scene.transport), ", rank ",
                                           plan.rank, " of group ", plan.group, " at ",
                                           plan.meets_at, ": ", statuses[i].ToString());
      ASSERT_FALSE(absl::IsDataLoss(statuses[i])) << who;
      if (!scene.groups[plan.group]->is_disturbed) {
        ASSERT_TRUE(statuses[i].ok()) << who;
        ++num_undisturbed;
      }
      if (plan.meets_at == plan.group) continue;
      ++num_foreign;
      ASSERT_FALSE(statuses[i].ok()) << who;
      num_refused_by_name += absl::IsAborted(statuses[i]);
    }
  }
  // That the scenes have what they are drawn for.
  EXPECT_GT(num_foreign, num_seeds / 4);
  EXPECT_GT(num_refused_by_name, 0);
  EXPECT_GT(num_undisturbed, num_seeds);
}

// What a child process does: calls until all are made, or, killed, until then. Its exit status.
int RunProcess(const ShmOptions& options, int group, std::optional<int> killed_after_yields) {
  std::thread killer;
  if (killed_after_yields.has_value()) {
    killer = std::thread([&] {
      for (int i = 0; i < *killed_after_yields; ++i) std::this_thread::yield();
      kill(getpid(), SIGKILL);
    });
  }
  // A rank whose peer is killed before they meet waits in vain, and nobody tells it.
  const auto communicator = JoinShm(options, Deadline::After(absl::Seconds(20)));
  absl::Status status = communicator.status();
  for (int call = 0; status.ok() && call < 60; ++call) {
    status = CallOnce(**communicator, group, call, 500);
  }
  if (killer.joinable()) killer.join();
  return status.ok() ? 0 : absl::IsDataLoss(status) ? 2 : 1;
}

// Groups of processes, of which some are killed at any moment: while they meet, or in a call.
TEST(RankGroupsTest, NeverMixThoughProcessesAreKilled) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer starts no threads in a child of a process that has some";
#endif
  const int num_seeds = IsEmulated() ? 2 : 8;
  for (int seed = 0; seed < num_seeds; ++seed) {
    std::mt19937 random(static_cast<std::uint32_t>(seed));
    constexpr int kSize = 2;
    std::vector<std::string> names;
    std::vector<WiringIdentity> wirings;
    std::vector<pid_t> children;
    for (int group = 0; group < kNumGroups; ++group) {
      names.push_back(UniqueGroupName());
      wirings.push_back(*WiringIdentity::Make(DrawWiringNonce(), 1, "model"));
    }
    const int victim = static_cast<int>(random() % (kNumGroups * kSize));
    const int num_yields = static_cast<int>(random() % 100);
    for (int i = 0; i < kNumGroups * kSize; ++i) {
      const int group = i % kNumGroups, rank = i / kNumGroups;
      const pid_t child = fork();
      if (child == 0) {
        _exit(RunProcess(
            {.name = names[group], .wiring = wirings[group], .rank = rank, .size = kSize}, group,
            i == victim ? std::optional(num_yields) : std::nullopt));
      }
      children.push_back(child);
    }
    const int victims_group = victim % kNumGroups;
    int status = 0;
    ASSERT_EQ(waitpid(children[victim], &status, 0), children[victim]);
    ASSERT_TRUE(WIFSIGNALED(status)) << "seed " << seed;
    // An orchestrator tells the other rank, which may wait for one that never comes.
    const int peer = (victim + kNumGroups) % (kNumGroups * kSize);
    for (int i = 0; i < kNumGroups * kSize; ++i) {
      if (i == victim) continue;
      if (i == peer) kill(children[i], SIGTERM);
      ASSERT_EQ(waitpid(children[i], &status, 0), children[i]);
      ASSERT_FALSE(WIFEXITED(status) && WEXITSTATUS(status) == 2) << "seed " << seed << ", " << i;
      if (i % kNumGroups == victims_group) continue;
      ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "seed " << seed << ", " << i;
    }
  }
}

}  // namespace
}  // namespace sluice::testing
