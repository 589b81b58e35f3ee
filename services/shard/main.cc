// sluice-shard: serves one tensor-parallel rank of one pipeline stage.
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "services/common/status.h"
#include "services/model/storage_type.h"
#include "services/model_server/gpu_faults.h"
#include "services/model_server/model_server_flags.h"
#include "services/program/process.h"
#include "services/shard/shard_server.h"

namespace {

absl::StatusOr<int> RankOf(const sluice::OptionValues& values) {
  const std::string name = values.Get<std::string>("rank_of");
  if (name.empty()) return values.Get<int>("rank");
  int rank = 0;
  if (absl::SimpleAtoi(name.substr(name.rfind('-') + 1), &rank) && rank >= 0) return rank;
  return absl::InvalidArgumentError(
      absl::StrCat("--rank_of is \"", name, "\"; accepted: a name that ends with -RANK"));
}

absl::StatusOr<sluice::DType> KvDTypeOf(const std::string& text, bool on_gpu) {
  if (text.empty()) return sluice::DefaultKvDType(on_gpu);
  return sluice::ParseKvDType(text);
}

absl::StatusOr<sluice::ShardServerOptions> OptionsOf(const sluice::ProcessOptions& process) {
  const sluice::OptionValues& values = process.values;
  const auto server = sluice::ModelServerOptionsOf(process);
  if (!server.ok()) return server.status();
  const bool on_gpu = server->device.device.kind != sluice::DeviceKind::kCpu;
  const auto kv_dtype = KvDTypeOf(values.Get<std::string>("kv_dtype"), on_gpu);
  if (!kv_dtype.ok()) return sluice::Annotate(kv_dtype.status(), "--kv_dtype");
  const int kv_cache_mib = values.Get<int>("kv_cache_mib");
  const int least = on_gpu ? 0 : 1;
  if (kv_cache_mib < least) {
    return absl::InvalidArgumentError(
        absl::StrCat("--kv_cache_mib is ", kv_cache_mib, "; accepted: ", least, " or more"));
  }
  const absl::StatusOr<int> rank = RankOf(values);
  if (!rank.ok()) return rank.status();
  sluice::ShardServerOptions options;
  options.server = *server;
  options.placement = {.num_stages = values.Get<int>("num_stages"),
                       .num_ranks = values.Get<int>("num_ranks"),
                       .stage = values.Get<int>("stage"),
                       .rank = *rank};
  options.shard.kv_dtype = *kv_dtype;
  options.shard.kv_cache_bytes = static_cast<uint64_t>(kv_cache_mib) << 20;
  options.shard.device_share = values.Get<double>("device_share");
  options.shard.block_size = values.Get<int>("block_size");
  const int state_slots = values.Get<int>("state_slots");
  if (state_slots < 0 || state_slots == 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("--state_slots is ", state_slots, "; accepted: 0, or 2 or more"));
  }
  options.shard.num_state_slots = state_slots;
  options.shard.max_step_rows = values.Get<int>("max_step_tokens");
  options.shard.step_timeout = values.Get<absl::Duration>("step_timeout");
  options.communicator_address = values.Get<std::string>("communicator_address");
  options.communicator_interface = values.Get<std::string>("communicator_interface");
  options.trusted_network = values.Get<bool>("trusted_network");
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  if (const auto checked = sluice::RunGpuCheck(argc, argv)) return *checked;
  std::unique_ptr<sluice::Dialer> dialer;
  return sluice::RunProcess(
      argc, argv, sluice::kShard,
      "Runs one rank of one stage of decoder layers and holds its part of the KV cache.",
      [&dialer](const sluice::ProcessOptions& process)
          -> absl::StatusOr<std::unique_ptr<sluice::RunningService>> {
        const auto options = OptionsOf(process);
        if (!options.ok()) return options.status();
        dialer = std::make_unique<sluice::Dialer>(process.tls);
        return sluice::StartShardServer(*options, dialer.get());
      });
}
