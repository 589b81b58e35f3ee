// sluice-sampler: serves a model's head and chooses tokens.
#include "absl/flags/flag.h"
#include "services/common/process.h"
#include "services/sampler/sampler_server.h"

ABSL_FLAG(std::string, weights, "auto",
          "type of the head in memory: auto (as stored), f32, bf16, int8 or int4 (as int8)");
ABSL_FLAG(int, threads, 0, "threads for arithmetic; 0: one per core, or per CPU of --cpus");

int main(int argc, char** argv) {
  return sluice::RunProcess(
      argc, argv, "Receives hidden rows of the last shard stage and chooses or scores tokens.",
      [](const sluice::ProcessOptions& process)
          -> absl::StatusOr<std::unique_ptr<sluice::RunningService>> {
        const auto weights = sluice::ParseWeightType(absl::GetFlag(FLAGS_weights));
        if (!weights.ok()) return weights.status();
        return sluice::SamplerServer::Start({.model = process.model,
                                             .overrides = {process.rope_scaling},
                                             .address = process.listen,
                                             .tls = process.tls,
                                             .weights = *weights,
                                             .num_threads = absl::GetFlag(FLAGS_threads),
                                             .cpus = process.cpus});
      });
}
