// What befalls a simulated run.
#include "tests/simulation/world.h"

namespace sluice::simulation {
namespace {

constexpr absl::Duration kLongestFault = absl::Seconds(4);

}  // namespace

void World::PlanFaults() {
  // A fifth of the runs is quiet.
  const int count = poison_.has_value() || chance_.Percent(20) ? 0 : chance_.Pick(1, 8);
  result_.num_faults = count;
  faults_end_ = timeline_.now() + kFaultPeriod + kLongestFault;
  for (int i = 0; i < count; ++i) {
    timeline_.After(chance_.Between(absl::ZeroDuration(), kFaultPeriod), [this] { OneFault(); });
  }
  timeline_.At(faults_end_, [this] {
    for (const auto& [address, host] : hosts_) network_.SlowDown(host, absl::ZeroDuration());
  });
}

// In every other run, by chance of its own, so that the others stay what they were.
void World::PlanForeignPushes() {
  if (options_.seed % 2 != 0) return;
  Chance chance(options_.seed);
  for (int i = 0; i < 200; ++i) {
    const std::string& address =
        addresses_[chance.Pick(0, static_cast<int>(addresses_.size()) - 1)];
    timeline_.After(chance.Between(absl::ZeroDuration(), kFaultPeriod),
                    [this, address] { PushForeignRows(address); });
  }
}

void World::PushForeignRows(const std::string& address) {
  const auto process = processes_.find(address);
  if (process == processes_.end()) return;
  const auto awaited = process->second->AwaitedRows();
  if (awaited.empty()) return;
  ++result_.num_foreign_pushes;
  history_.Add(timeline_, "FAULT foreign rows to ", address);
  auto push = std::make_shared<PushStream>();
  push->connection = network_.Connect(foreign_host_, hosts_.at(address));
  push->connection->Send(Connection::kServer, [this, address, push] {
    const auto process = processes_.find(address);
    if (process != processes_.end()) process->second->Serve(push);
  });
  for (const auto& [step, num_rows] : awaited) {
    PushStream::SendRequest(push, {.wiring = {}, .step_id = step, .rows = Rows(num_rows, 0x5eed)});
  }
}

void World::OneFault() {
  const std::string& address = addresses_[chance_.Pick(0, static_cast<int>(addresses_.size()) - 1)];
  const std::string& other = addresses_[chance_.Pick(0, static_cast<int>(addresses_.size()) - 1)];
  const HostId host = hosts_.at(address);
  const HostId far = address == other ? orchestrator_host_ : hosts_.at(other);
  const absl::Duration duration = chance_.Percent(50)
                                      ? chance_.Between(absl::ZeroDuration(), kLongestFault)
                                      : chance_.Between(absl::ZeroDuration(), kLongestFault / 20);
  switch (chance_.Pick(0, 10)) {
    case 0:
    case 1:
    case 2:
      return CrashProcess(address, duration);
    case 3:
      return CrashOrchestrator(duration);
    case 4:
      return network_.Hang(chance_.Percent(80) ? host : orchestrator_host_, duration);
    case 5:
      return network_.Partition(host, far, duration);
    case 6:
      return network_.Cut(host, chance_.Percent(50) ? far : orchestrator_host_);
    case 7:
      history_.Add(timeline_, "FAULT ", address, " is slow");
      return network_.SlowDown(host, chance_.Between(absl::ZeroDuration(), absl::Milliseconds(30)));
    case 8:
      return network_.Cut(orchestrator_host_, tokenizer_host_);
    case 9:
      return StartRival(duration / 4);
    default:
      return network_.Hang(tokenizer_host_, duration);
  }
}

void World::Plant() {
  if (options_.planted != Planted::kSpoiledSlot) return;
  for (int i = 0; i < 3000; ++i) {
    timeline_.After(absl::Milliseconds(i), [this] {
      const auto process = processes_.find("shard-0-0");
      if (process != processes_.end()) process->second->SpoilSlot();
    });
  }
}

}  // namespace sluice::simulation
