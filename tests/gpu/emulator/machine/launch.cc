#include "tests/gpu/emulator/machine/launch.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/gpu/emulator/machine/cluster_run.h"
#include "tests/gpu/emulator/machine/new_block.h"

namespace sluice::cuda::emulator {
namespace {

absl::Status CheckShape(const LaunchRequest& request) {
  const Function& function = request.program->function;
  if (request.threads > function.max_threads || request.threads % kWarpThreads != 0) {
    return absl::InternalError(absl::StrCat(function.name, ": blocks of ", request.threads,
                                            " threads; accepted: whole warps, at most ",
                                            function.max_threads));
  }
  if (request.blocks % request.cluster != 0) {
    return absl::InternalError(absl::StrCat(function.name, ": ", request.blocks,
                                            " blocks in clusters of ", request.cluster));
  }
  if (request.parameters.size() != function.parameter_bytes) {
    return absl::InternalError(absl::StrCat(function.name, ": ", request.parameters.size(),
                                            " bytes of parameters, of ", function.parameter_bytes));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CarryOut(const LaunchRequest& request, const LaunchOrder& order, GlobalMemory& memory,
                      GridDependence& dependence) {
  dependence = {};
  if (absl::Status shape = CheckShape(request); !shape.ok()) return shape;
  memory.BeginLaunch(order);
  Stacks stacks;
  for (int64_t block = 0; block < request.blocks; block += request.cluster) {
    ClusterRun cluster(request, memory, block, stacks);
    const std::string fault = cluster.Run();
    dependence.all_waited = dependence.all_waited && cluster.AllBlocksWaited();
    dependence.none_released_early =
        dependence.none_released_early && !cluster.AnyThreadReleasedEarly();
    if (request.traffic != nullptr) request.traffic->EndCluster();
    if (fault.empty()) continue;
    return absl::InternalError(absl::StrCat(request.program->function.name, ": ", fault));
  }
  if (request.traffic != nullptr) request.traffic->EndLaunch();
  return absl::OkStatus();
}

}  // namespace sluice::cuda::emulator
