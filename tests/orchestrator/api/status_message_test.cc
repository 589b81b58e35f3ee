#include "orchestrator/api/status_message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

RunnerStatus Runner(RunnerRole role, uint64_t epoch, int32_t num_blocks) {
  RunnerStatus runner;
  runner.role = role;
  runner.ready = true;
  runner.epoch = epoch;
  runner.scheduler.kv_cache.total_blocks = num_blocks;
  runner.scheduler.running_sequences = 2;
  runner.num_steps = 10 * epoch;
  runner.num_recoveries = epoch - 1;
  std::vector<ReplicaProcess> processes(2);
  processes[0].role = Role::kEmbedding;
  processes[1].role = Role::kShard;
  processes[1].kv_bytes = 100 * epoch;
  processes[1].ready = true;
  runner.processes = std::make_shared<std::vector<ReplicaProcess>>(processes);
  return runner;
}

EngineStatus WithDrafts() {
  EngineStatus status;
  status.runners = {Runner(RunnerRole::kTarget, 3, 64), Runner(RunnerRole::kDraft, 2, 16)};
  status.num_proposed_tokens = 40;
  status.num_unadmitted_requests = 1;
  return status;
}

TEST(StatusMessage, HasAReplicaForEveryRunner) {
  v1::GetStatusResponse response;
  FillStatus(WithDrafts(), response);
  ASSERT_EQ(response.replicas_size(), 2);
  const v1::ReplicaStatus& target = response.replicas(0);
  EXPECT_EQ(target.name(), "target");
  EXPECT_EQ(target.role(), v1::REPLICA_ROLE_TARGET);
  EXPECT_TRUE(target.ready());
  EXPECT_EQ(target.epoch(), 3u);
  EXPECT_EQ(target.kv_cache().num_blocks(), 64);
  EXPECT_EQ(target.num_running_sequences(), 2);
  EXPECT_EQ(target.num_steps(), 30u);
  EXPECT_EQ(target.num_recoveries(), 2u);
  const v1::ReplicaStatus& draft = response.replicas(1);
  EXPECT_EQ(draft.name(), "draft");
  EXPECT_EQ(draft.role(), v1::REPLICA_ROLE_DRAFT);
  EXPECT_EQ(draft.kv_cache().num_blocks(), 16);
  ASSERT_EQ(draft.processes_size(), 2);
  EXPECT_EQ(draft.processes(1).service(), "shard") << "told apart by its role";
  EXPECT_EQ(draft.processes(1).role(), v1::REPLICA_ROLE_DRAFT);
  EXPECT_EQ(draft.processes(1).state(), v1::PROCESS_STATE_READY);
  EXPECT_EQ(draft.processes(1).kv_bytes(), 200u);
}

TEST(StatusMessage, ListsTheProcessesOfAllReplicasByNamesOfTheirOwn) {
  v1::GetStatusResponse response;
  response.add_processes()->set_service("tokenizer");
  FillStatus(WithDrafts(), response);
  std::vector<std::string> services;
  for (const v1::ProcessStatus& process : response.processes()) {
    services.push_back(process.service());
  }
  EXPECT_THAT(services,
              ElementsAre("tokenizer", "embedding", "shard", "draft-embedding", "draft-shard"));
  EXPECT_EQ(response.processes(0).role(), v1::REPLICA_ROLE_UNSPECIFIED);
  EXPECT_EQ(response.processes(2).role(), v1::REPLICA_ROLE_TARGET);
  EXPECT_EQ(response.processes(4).role(), v1::REPLICA_ROLE_DRAFT);
}

TEST(StatusMessage, HidesWhereProcessesAreInEveryList) {
  EngineStatus status = WithDrafts();
  std::vector<ReplicaProcess> processes(1);
  processes[0].address = "unix:/run/sluice/shard-0-0";
  processes[0].detail = "cannot reach unix:/run/sluice/shard-0-0";
  status.runners[1].processes = std::make_shared<std::vector<ReplicaProcess>>(processes);
  v1::GetStatusResponse response;
  FillStatus(status, response);
  EXPECT_THAT(response.DebugString(), HasSubstr("/run/sluice"));
  HideLocations(ClientErrors({"unix:/run/sluice/shard-0-0"}), response);
  EXPECT_THAT(response.DebugString(), Not(HasSubstr("/run/sluice")));
  EXPECT_THAT(response.replicas(1).processes(0).detail(), HasSubstr("cannot reach"));
}

TEST(StatusMessage, FillsWhatEarlierClientsRead) {
  v1::GetStatusResponse response;
  FillStatus(WithDrafts(), response);
  EXPECT_TRUE(response.serving());
  EXPECT_EQ(response.epoch(), 3u);
  EXPECT_EQ(response.kv_cache().num_blocks(), 64);
  EXPECT_EQ(response.num_running_sequences(), 2);
  EXPECT_EQ(response.num_waiting_sequences(), 1);
  EXPECT_EQ(response.num_steps(), 30u);
  EXPECT_EQ(response.num_recoveries(), 2u);
  EXPECT_TRUE(response.draft_model().ready());
  EXPECT_EQ(response.draft_model().epoch(), 2u);
  EXPECT_EQ(response.draft_model().num_sequences(), 2);
  EXPECT_EQ(response.draft_model().num_proposed_tokens(), 40u);
  EngineStatus alone = WithDrafts();
  alone.runners.pop_back();
  v1::GetStatusResponse without;
  FillStatus(alone, without);
  EXPECT_FALSE(without.has_draft_model());
}

}  // namespace
}  // namespace sluice
