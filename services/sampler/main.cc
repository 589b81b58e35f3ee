// sluice-sampler: serves a model's head and chooses tokens.
#include "services/model_server/gpu_faults.h"
#include "services/model_server/model_server_flags.h"
#include "services/program/process.h"
#include "services/sampler/sampler_server.h"

int main(int argc, char** argv) {
  if (const auto checked = sluice::RunGpuCheck(argc, argv)) return *checked;
  return sluice::RunProcess(
      argc, argv, sluice::kSampler,
      "Receives hidden rows of the last shard stage and chooses or scores tokens.",
      [](const sluice::ProcessOptions& process)
          -> absl::StatusOr<std::unique_ptr<sluice::RunningService>> {
        const auto options = sluice::ModelServerOptionsOf(process);
        if (!options.ok()) return options.status();
        return sluice::StartSamplerServer(*options);
      });
}
