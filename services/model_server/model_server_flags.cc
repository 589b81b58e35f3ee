#include "services/model_server/model_server_flags.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/device/make_backend.h"
#include "kernels/gpu/gpu_check.h"
#include "services/common/status.h"
#include "services/model/storage_type.h"
#include "services/model_server/gpu_faults.h"

namespace sluice {

absl::StatusOr<ModelServerOptions> ModelServerOptionsOf(const ProcessOptions& process,
                                                        const ModelServerFlags& flags) {
  const absl::StatusOr<WeightType> weights = ParseWeightType(flags.weights);
  if (!weights.ok()) return Annotate(weights.status(), "--weights");
  const absl::StatusOr<DeviceId> device = ParseDevice(flags.device);
  if (!device.ok()) return Annotate(device.status(), "--device");
  if (flags.threads < 0 || flags.threads > kMostThreads) {
    return absl::InvalidArgumentError(absl::StrCat("--threads is ", flags.threads,
                                                   "; accepted: 1 to ", kMostThreads,
                                                   ", or 0 for one per core"));
  }
  const absl::StatusOr<InstructionSet> instructions = ParseInstructionSet(flags.instructions);
  if (!instructions.ok()) return Annotate(instructions.status(), "--instructions");
  const auto gpu_products = ParseGpuProducts(flags.gpu_instructions);
  if (!gpu_products.ok()) return Annotate(gpu_products.status(), "--gpu_instructions");
  DeviceOptions computing{
      .device = *device,
      .cpu = {.num_threads = flags.threads, .instructions = *instructions, .cpus = process.cpus},
      .gpu_products = *gpu_products};
  GuardAgainstGpuFaults(process.program, computing);
  return ModelServerOptions{.model = process.model,
                            .overrides = {process.rope_scaling},
                            .address = process.listen,
                            .tls = process.tls,
                            .hang_timeout = process.hang_timeout,
                            .weights = *weights,
                            .device = std::move(computing)};
}

}  // namespace sluice
