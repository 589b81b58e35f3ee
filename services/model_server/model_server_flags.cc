#include "services/model_server/model_server_flags.h"

#include "kernels/device.h"
#include "services/model/storage_type.h"

namespace sluice {

absl::StatusOr<ModelServerOptions> ModelServerOptionsOf(const ProcessOptions& process,
                                                        const ModelServerFlags& flags) {
  const absl::StatusOr<WeightType> weights = ParseWeightType(flags.weights);
  if (!weights.ok()) return weights.status();
  const absl::StatusOr<DeviceId> device = ParseDevice(flags.device);
  if (!device.ok()) return device.status();
  const absl::StatusOr<InstructionSet> instructions = ParseInstructionSet(flags.instructions);
  if (!instructions.ok()) return instructions.status();
  return ModelServerOptions{.model = process.model,
                            .overrides = {process.rope_scaling},
                            .address = process.listen,
                            .tls = process.tls,
                            .hang_timeout = process.hang_timeout,
                            .weights = *weights,
                            .device = {.device = *device,
                                       .cpu = {.num_threads = flags.threads,
                                               .instructions = *instructions,
                                               .cpus = process.cpus}}};
}

}  // namespace sluice
