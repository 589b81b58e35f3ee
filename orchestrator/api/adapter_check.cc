#include "orchestrator/api/adapter_check.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace sluice {

absl::Status CheckComputesAdapters(const Engine& engine) {
  const RunnerStatus target = engine.status().target();
  for (const ReplicaProcess& process : *target.processes) {
    if (!absl::StartsWith(process.arithmetic, "cuda")) continue;
    return absl::UnimplementedError(absl::StrCat("adapters are computed on CPUs alone; the ",
                                                 process.service(), " computes with ",
                                                 process.arithmetic));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> AdapterOf(const AdapterRegistry* registry, const Engine& engine,
                                      const std::string& name) {
  if (name.empty()) return std::string();
  if (registry == nullptr) {
    return absl::NotFoundError(
        absl::StrCat("adapter is \"", name, "\", which is not loaded; none is"));
  }
  absl::StatusOr<std::string> id = registry->IdOf(name);
  if (!id.ok()) return id;
  if (absl::Status computes = CheckComputesAdapters(engine); !computes.ok()) return computes;
  return id;
}

}  // namespace sluice
