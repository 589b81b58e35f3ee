// sluice-shard: serves one tensor-parallel rank of one pipeline stage.
#include "absl/flags/flag.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "services/common/process.h"
#include "services/common/status.h"
#include "services/model/storage_type.h"
#include "services/model_server/gpu_faults.h"
#include "services/model_server/model_server_flags.h"
#include "services/shard/shard_server.h"

ABSL_FLAG(int, num_stages, 1, "pipeline stages of the replica");
ABSL_FLAG(int, stage, 0, "which of them this shard belongs to, from 0");
ABSL_FLAG(int, num_ranks, 1, "tensor-parallel ranks of a stage: 1, 2, 4 or 8");
ABSL_FLAG(int, rank, 0, "which of them this shard is, from 0");
ABSL_FLAG(
    std::string, rank_of, "",
    "a name that ends with the rank, as those of a StatefulSet's pods do (stage-0-1); instead "
    "of --rank");
ABSL_FLAG(std::string, weights, "auto",
          "type of the weights in memory: auto (as stored), f32, bf16, int8, int4, fp8, int8-g64, "
          "or fp8-w8a8 (inputs of products are rounded to FP8, too)");
ABSL_FLAG(std::string, kv_dtype, "",
          "type of keys and values: f32, bf16 or fp8; empty: bf16 on a GPU, else f32");
ABSL_FLAG(
    std::string, device, "cpu",
    "what computes: cpu, or cuda[:i], GPU i of the machine (the first), in a build with CUDA");
ABSL_FLAG(int, threads, 0, "threads for arithmetic; 0: one per core, or per CPU of --cpus");
ABSL_FLAG(std::string, instructions, "auto",
          "what computes matrix products: auto (the fastest that this processor has), portable, "
          "avx512_bf16 or amx_bf16; the same for all shards");
ABSL_FLAG(std::string, gpu_instructions, "auto",
          "the fastest that a GPU may multiply with: auto (the fastest that it has), mma, wgmma, "
          "wgmma_pipeline or wgmma_fp8; the same for all shards");
ABSL_FLAG(int, kv_cache_mib, 256,
          "memory for keys and values, in MiB; 0, on a GPU alone: what it has left of "
          "--device_share");
ABSL_FLAG(double, device_share, 0.8,
          "part of a GPU's memory that weights, keys and values may take together with "
          "--kv_cache_mib=0; less where several shards share the GPU");
ABSL_FLAG(int, block_size, 16, "positions in a block of the KV cache");
ABSL_FLAG(int, max_step_tokens, 512, "rows of the largest step; at least the orchestrator's");
ABSL_FLAG(absl::Duration, step_timeout, absl::InfiniteDuration(),
          "how long the ranks may wait for each other within a step; inf: for as long as their "
          "orchestrator waits for it, by what steps have taken");
ABSL_FLAG(
    std::string, communicator_address, "127.0.0.1",
    "where this rank listens for ranks on other hosts (--rank_transport=tcp of the orchestrator)");
ABSL_FLAG(std::string, communicator_interface, "",
          "network interface, such as eth0, whose address is used instead");
ABSL_FLAG(
    bool, trusted_network, false,
    "exchange the ranks' bytes in plaintext although they leave this host, for a network of the "
    "ranks' own; the same for all ranks. Otherwise they go over TLS with --tls_cert");

namespace {

absl::StatusOr<int> RankFromFlags() {
  const std::string name = absl::GetFlag(FLAGS_rank_of);
  if (name.empty()) return absl::GetFlag(FLAGS_rank);
  int rank = 0;
  if (absl::SimpleAtoi(name.substr(name.rfind('-') + 1), &rank) && rank >= 0) return rank;
  return absl::InvalidArgumentError(
      absl::StrCat("--rank_of is \"", name, "\"; accepted: a name that ends with -RANK"));
}

absl::StatusOr<sluice::DType> KvDTypeFromFlags(bool on_gpu) {
  const std::string text = absl::GetFlag(FLAGS_kv_dtype);
  if (text.empty()) return sluice::DefaultKvDType(on_gpu);
  return sluice::ParseKvDType(text);
}

absl::StatusOr<sluice::ShardServerOptions> OptionsFromFlags(const sluice::ProcessOptions& process) {
  const auto server = sluice::ModelServerOptionsOf(
      process, {.weights = absl::GetFlag(FLAGS_weights),
                .device = absl::GetFlag(FLAGS_device),
                .threads = absl::GetFlag(FLAGS_threads),
                .instructions = absl::GetFlag(FLAGS_instructions),
                .gpu_instructions = absl::GetFlag(FLAGS_gpu_instructions)});
  if (!server.ok()) return server.status();
  const bool on_gpu = server->device.device.kind != sluice::DeviceKind::kCpu;
  const auto kv_dtype = KvDTypeFromFlags(on_gpu);
  if (!kv_dtype.ok()) return sluice::Annotate(kv_dtype.status(), "--kv_dtype");
  const int kv_cache_mib = absl::GetFlag(FLAGS_kv_cache_mib);
  const int least = on_gpu ? 0 : 1;
  if (kv_cache_mib < least) {
    return absl::InvalidArgumentError(
        absl::StrCat("--kv_cache_mib is ", kv_cache_mib, "; accepted: ", least, " or more"));
  }
  const absl::StatusOr<int> rank = RankFromFlags();
  if (!rank.ok()) return rank.status();
  sluice::ShardServerOptions options;
  options.server = *server;
  options.placement = {.num_stages = absl::GetFlag(FLAGS_num_stages),
                       .num_ranks = absl::GetFlag(FLAGS_num_ranks),
                       .stage = absl::GetFlag(FLAGS_stage),
                       .rank = *rank};
  options.shard.kv_dtype = *kv_dtype;
  options.shard.kv_cache_bytes = static_cast<uint64_t>(kv_cache_mib) << 20;
  options.shard.device_share = absl::GetFlag(FLAGS_device_share);
  options.shard.block_size = absl::GetFlag(FLAGS_block_size);
  options.shard.max_step_rows = absl::GetFlag(FLAGS_max_step_tokens);
  options.shard.step_timeout = absl::GetFlag(FLAGS_step_timeout);
  options.communicator_address = absl::GetFlag(FLAGS_communicator_address);
  options.communicator_interface = absl::GetFlag(FLAGS_communicator_interface);
  options.trusted_network = absl::GetFlag(FLAGS_trusted_network);
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  if (const auto checked = sluice::RunGpuCheck(argc, argv)) return *checked;
  std::unique_ptr<sluice::Dialer> dialer;
  return sluice::RunProcess(
      argc, argv,
      "Runs one rank of one stage of decoder layers and holds its part of the KV cache.",
      [&dialer](const sluice::ProcessOptions& process)
          -> absl::StatusOr<std::unique_ptr<sluice::RunningService>> {
        const auto options = OptionsFromFlags(process);
        if (!options.ok()) return options.status();
        dialer = std::make_unique<sluice::Dialer>(process.tls);
        return sluice::StartShardServer(*options, dialer.get());
      });
}
