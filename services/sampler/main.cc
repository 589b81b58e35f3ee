// sluice-sampler: serves a model's head and chooses tokens.
#include "absl/flags/flag.h"
#include "services/common/process.h"
#include "services/model_server/gpu_faults.h"
#include "services/model_server/model_server_flags.h"
#include "services/sampler/sampler_server.h"

ABSL_FLAG(std::string, weights, "auto",
          "type of the head in memory: auto (as stored), f32, bf16, int8, int4 (as int6), fp8, "
          "int8-g64 or fp8-w8a8 (as fp8)");
ABSL_FLAG(
    std::string, device, "cpu",
    "what computes: cpu, or cuda[:i], GPU i of the machine (the first), in a build with CUDA");
ABSL_FLAG(int, threads, 0, "threads for arithmetic; 0: one per core, or per CPU of --cpus");
ABSL_FLAG(std::string, instructions, "auto",
          "what computes matrix products: auto (the fastest that this processor has), portable, "
          "avx512_bf16 or amx_bf16");
ABSL_FLAG(std::string, gpu_instructions, "auto",
          "the fastest that a GPU may multiply with: auto (the fastest that it has), mma, wgmma, "
          "wgmma_pipeline or wgmma_fp8");

int main(int argc, char** argv) {
  if (const auto checked = sluice::RunGpuCheck(argc, argv)) return *checked;
  return sluice::RunProcess(
      argc, argv, "Receives hidden rows of the last shard stage and chooses or scores tokens.",
      [](const sluice::ProcessOptions& process)
          -> absl::StatusOr<std::unique_ptr<sluice::RunningService>> {
        const auto options = sluice::ModelServerOptionsOf(
            process, {.weights = absl::GetFlag(FLAGS_weights),
                      .device = absl::GetFlag(FLAGS_device),
                      .threads = absl::GetFlag(FLAGS_threads),
                      .instructions = absl::GetFlag(FLAGS_instructions),
                      .gpu_instructions = absl::GetFlag(FLAGS_gpu_instructions)});
        if (!options.ok()) return options.status();
        return sluice::StartSamplerServer(*options);
      });
}
