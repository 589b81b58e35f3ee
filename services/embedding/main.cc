// sluice-embedding: serves a model's embedding table.
#include "absl/flags/flag.h"
#include "services/common/process.h"
#include "services/embedding/embedding_server.h"
#include "services/model_server/gpu_faults.h"
#include "services/model_server/model_server_flags.h"

ABSL_FLAG(std::string, weights, "auto",
          "type of the table in memory: auto (as stored), f32, bf16, int8, int4, fp8, int8-g64 or "
          "fp8-w8a8 (all five as bf16)");
ABSL_FLAG(
    std::string, device, "cpu",
    "what computes: cpu, or cuda[:i], GPU i of the machine (the first), in a build with CUDA");
ABSL_FLAG(int, threads, 0, "threads for arithmetic; 0: one per core, or per CPU of --cpus");
ABSL_FLAG(std::string, gpu_instructions, "auto",
          "the fastest that a GPU may multiply with: auto (the fastest that it has), mma, wgmma, "
          "wgmma_pipeline or wgmma_fp8");

int main(int argc, char** argv) {
  if (const auto checked = sluice::RunGpuCheck(argc, argv)) return *checked;
  std::unique_ptr<sluice::Dialer> dialer;
  return sluice::RunProcess(
      argc, argv, "Turns token ids into hidden rows and sends them to the first shard stage.",
      [&dialer](const sluice::ProcessOptions& process)
          -> absl::StatusOr<std::unique_ptr<sluice::RunningService>> {
        const auto options = sluice::ModelServerOptionsOf(
            process, {.weights = absl::GetFlag(FLAGS_weights),
                      .device = absl::GetFlag(FLAGS_device),
                      .threads = absl::GetFlag(FLAGS_threads),
                      .gpu_instructions = absl::GetFlag(FLAGS_gpu_instructions)});
        if (!options.ok()) return options.status();
        dialer = std::make_unique<sluice::Dialer>(process.tls);
        return sluice::StartEmbeddingServer(*options, dialer.get());
      });
}
