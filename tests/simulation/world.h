// Everything in a simulated run: hosts, stage processes, the orchestrator, clients, and the faults
// that befall them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "orchestrator/engine/engine_core.h"
#include "orchestrator/pipeline/connected_replica.h"
#include "orchestrator/text/text_streams.h"
#include "tests/simulation/client.h"
#include "tests/simulation/network.h"
#include "tests/simulation/simulated_services.h"
#include "tests/simulation/simulation.h"
#include "tests/simulation/stage_process.h"
#include "tests/simulation/timeline.h"

namespace sluice::simulation {

class World {
 public:
  explicit World(const SimulationOptions& options);

  SimulationResult Run();

 private:
  // One incarnation of the orchestrator.
  struct Orchestrator {
    // `draft_world` has the stages of the model that drafts; null: none does.
    Orchestrator(StageWorld* world, StageWorld* draft_world, HostId host, HostId tokenizer,
                 const EngineOptions& options, ReplicaOptions replica);

    Replica* ConnectDraftModel(StageWorld* world);

    const HostId host;
    SimulatedStageNetwork network;
    ConnectedReplica replica;
    std::optional<SimulatedStageNetwork> draft_network;
    std::optional<ConnectedReplica> draft_replica;
    TextStreams text;
    EngineCore core;
    RequestId next_request = 1;
    uint64_t num_advances = 0;
    bool advance_planned = false;
    SteadyTime wake = SteadyTime::InfiniteFuture();
  };

  struct Served {
    std::shared_ptr<Client> client;
    std::optional<RequestId> id;  // at the current orchestrator
  };

  void AddProcesses();
  void AddDraftModel();
  void AddProcess(const std::string& address);
  void StartProcess(const std::string& address);
  void CrashProcess(const std::string& address, absl::Duration downtime);

  std::shared_ptr<Orchestrator> MakeOrchestrator(HostId host);
  void StartOrchestrator();
  void CrashOrchestrator(absl::Duration downtime);
  // Another orchestrator takes the same stages for its own for a while.
  void StartRival(absl::Duration duration);
  void Count(const EngineStatus& status);
  void HasNews(const std::shared_ptr<Orchestrator>& orchestrator);
  void AdvanceOrchestrator(const std::weak_ptr<Orchestrator>& weak);
  void CheckIntegrity(Orchestrator& orchestrator);

  void PlanRequests();
  void AddPoison(int index);
  void Submit(size_t index);
  void Leave(size_t index);
  void PlanFaults();
  // Another pipeline of the host, or whoever else: pushes rows to stages that have not opened it.
  void PlanForeignPushes();
  void PushForeignRows(const std::string& address);
  void OneFault();
  void Plant();

  bool AllOver() const;
  // What is wrong once everything is over, or "".
  std::string FinalFault() const;

  // From its begin on, in which requests come and faults happen.
  static constexpr absl::Duration kFaultPeriod = absl::Seconds(3);

  const SimulationOptions options_;
  Timeline timeline_;
  Chance chance_;
  History history_;
  Network network_;
  StageWorld stages_;
  std::optional<StageWorld> draft_stages_;  // of a model that drafts; in half of the runs
  int max_positions_ = 0;

  HostId orchestrator_host_ = 0;
  HostId rival_host_ = 0;
  HostId tokenizer_host_ = 0;
  HostId foreign_host_ = 0;
  std::map<std::string, HostId> hosts_;
  std::map<std::string, std::shared_ptr<StageProcess>> processes_;
  std::vector<std::string> addresses_;
  std::shared_ptr<Orchestrator> orchestrator_;  // null while it is down
  std::shared_ptr<Orchestrator> rival_;         // null mostly

  std::vector<Served> served_;
  std::optional<int> poison_;  // index in served_
  std::optional<int> broken_;  // the same: the sampler has no tokens for it
  std::vector<std::shared_ptr<Client>> of_the_rival_;
  SteadyTime faults_end_;
  std::string fault_;
  SimulationResult result_;
};

}  // namespace sluice::simulation
