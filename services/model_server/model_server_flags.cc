#include "services/model_server/model_server_flags.h"

#include <string>
#include <utility>

#include "kernels/device/make_backend.h"
#include "kernels/gpu/gpu_check.h"
#include "services/common/status.h"
#include "services/model/storage_type.h"
#include "services/model_server/gpu_faults.h"

namespace sluice {

absl::StatusOr<ModelServerOptions> ModelServerOptionsOf(const ProcessOptions& process) {
  const OptionValues& values = process.values;
  const absl::StatusOr<WeightType> weights = ParseWeightType(values.Get<std::string>("weights"));
  if (!weights.ok()) return Annotate(weights.status(), "--weights");
  const absl::StatusOr<DeviceId> device = ParseDevice(values.Get<std::string>("device"));
  if (!device.ok()) return Annotate(device.status(), "--device");
  const auto instructions = ParseInstructionSet(values.Get<std::string>("instructions"));
  if (!instructions.ok()) return Annotate(instructions.status(), "--instructions");
  const auto gpu_products = ParseGpuProducts(values.Get<std::string>("gpu_instructions"));
  if (!gpu_products.ok()) return Annotate(gpu_products.status(), "--gpu_instructions");
  DeviceOptions computing{.device = *device,
                          .cpu = {.num_threads = values.Get<int>("threads"),
                                  .instructions = *instructions,
                                  .cpus = process.cpus},
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
