// sluice-embedding: serves a model's embedding table.
#include "services/embedding/embedding_server.h"
#include "services/model_server/gpu_faults.h"
#include "services/model_server/model_server_flags.h"
#include "services/program/process.h"

int main(int argc, char** argv) {
  if (const auto checked = sluice::RunGpuCheck(argc, argv)) return *checked;
  std::unique_ptr<sluice::Dialer> dialer;
  return sluice::RunProcess(
      argc, argv, sluice::kEmbedding,
      "Turns token ids into hidden rows and sends them to the first shard stage.",
      [&dialer](const sluice::ProcessOptions& process)
          -> absl::StatusOr<std::unique_ptr<sluice::RunningService>> {
        const auto options = sluice::ModelServerOptionsOf(process);
        if (!options.ok()) return options.status();
        dialer = std::make_unique<sluice::Dialer>(process.tls);
        return sluice::StartEmbeddingServer(*options, dialer.get());
      });
}
