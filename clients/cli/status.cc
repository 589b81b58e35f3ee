// `sluice status`: what runs where, and how it is.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "clients/cli/commands.h"
#include "clients/cli/connection.h"
#include "clients/cli/exit_code.h"
#include "clients/cli/json.h"
#include "clients/cli/outcome.h"

namespace sluice {
namespace {

std::string NameOf(v1::ProcessState state) {
  switch (state) {
    case v1::PROCESS_STATE_READY:
      return "ready";
    case v1::PROCESS_STATE_CONNECTING:
      return "connecting";
    default:
      return "unspecified";
  }
}

// "-" for none.
std::string Mebibytes(uint64_t bytes) {
  return bytes == 0 ? "-" : absl::StrFormat("%.1f MiB", static_cast<double>(bytes) / (1 << 20));
}

bool IsShard(const v1::ProcessStatus& process) { return process.service() == "shard"; }

Json ProcessJson(const v1::ProcessStatus& process) {
  Json json = {{"service", process.service()},
               {"address", process.address()},
               {"state", NameOf(process.state())},
               {"detail", process.detail()},
               {"weight_bytes", process.weight_bytes()}};
  if (IsShard(process)) {
    json["kv_bytes"] = process.kv_bytes();
    json["stage"] = process.stage();
    json["rank"] = process.rank();
  }
  if (!process.arithmetic().empty()) json["arithmetic"] = process.arithmetic();
  return json;
}

std::string JsonText(const v1::GetStatusResponse& status) {
  Json json = {{"serving", status.serving()},
               {"model", status.model_name()},
               {"epoch", status.epoch()},
               {"num_stages", status.num_stages()},
               {"num_ranks", status.num_ranks()}};
  json["processes"] = Json::array();
  for (const v1::ProcessStatus& process : status.processes()) {
    json["processes"].push_back(ProcessJson(process));
  }
  const v1::KvCacheStatus& kv_cache = status.kv_cache();
  json["kv_cache"] = {{"block_size", kv_cache.block_size()},
                      {"num_blocks", kv_cache.num_blocks()},
                      {"num_used_blocks", kv_cache.num_used_blocks()},
                      {"num_shared_blocks", kv_cache.num_shared_blocks()},
                      {"num_cached_blocks", kv_cache.num_cached_blocks()},
                      {"num_free_blocks", kv_cache.num_free_blocks()},
                      {"num_hit_positions", kv_cache.num_hit_positions()},
                      {"num_copied_blocks", kv_cache.num_copied_blocks()},
                      {"num_evicted_blocks", kv_cache.num_evicted_blocks()}};
  json["num_waiting_sequences"] = status.num_waiting_sequences();
  json["num_running_sequences"] = status.num_running_sequences();
  json["num_steps"] = status.num_steps();
  json["num_generated_tokens"] = status.num_generated_tokens();
  json["num_recoveries"] = status.num_recoveries();
  json["uptime_ms"] = status.uptime_ms();
  return DumpLine(json) + "\n";
}

std::string ProcessTable(const v1::GetStatusResponse& status) {
  size_t width = std::string("ADDRESS").size();
  for (const v1::ProcessStatus& process : status.processes()) {
    width = std::max(width, process.address().size());
  }
  const int address_width = static_cast<int>(width);
  std::string table =
      absl::StrFormat("%-10s  %5s  %4s  %-10s  %9s  %9s  %-*s  %s\n", "SERVICE", "STAGE", "RANK",
                      "STATE", "WEIGHTS", "KV CACHE", address_width, "ADDRESS", "DETAIL");
  for (const v1::ProcessStatus& process : status.processes()) {
    const bool shard = IsShard(process);
    // What is wrong with it or, where nothing is, what it computes with.
    const std::string& detail = process.detail().empty() ? process.arithmetic() : process.detail();
    absl::StrAppendFormat(&table, "%-10s  %5s  %4s  %-10s  %9s  %9s  %-*s  %s\n", process.service(),
                          shard ? absl::StrCat(process.stage()) : "-",
                          shard ? absl::StrCat(process.rank()) : "-", NameOf(process.state()),
                          Mebibytes(process.weight_bytes()), Mebibytes(process.kv_bytes()),
                          address_width, process.address(), detail);
  }
  return table;
}

std::string TextOf(const v1::GetStatusResponse& status, const std::string& endpoint) {
  const v1::KvCacheStatus& kv_cache = status.kv_cache();
  return absl::StrFormat(
      "%s is %s: model %s, stages %d, ranks %d, up %s\n\n%s\n"
      "KV blocks   %d used, %d cached, %d free, %d in all, of %d positions each\n"
      "Prefixes    %d positions found again, %d blocks copied, %d evicted\n"
      "Sequences   %d running, %d waiting\n"
      "Steps       %d, %d tokens generated\n"
      "Recoveries  %d, epoch %d\n",
      endpoint, status.serving() ? "serving" : "not serving", status.model_name(),
      status.num_stages(), status.num_ranks(),
      absl::FormatDuration(absl::Milliseconds(status.uptime_ms())), ProcessTable(status),
      kv_cache.num_used_blocks(), kv_cache.num_cached_blocks(), kv_cache.num_free_blocks(),
      kv_cache.num_blocks(), kv_cache.block_size(), kv_cache.num_hit_positions(),
      kv_cache.num_copied_blocks(), kv_cache.num_evicted_blocks(), status.num_running_sequences(),
      status.num_waiting_sequences(), status.num_steps(), status.num_generated_tokens(),
      status.num_recoveries(), status.epoch());
}

}  // namespace

int StatusCommand(absl::Span<const std::string> arguments, Environment& environment) {
  EndpointFlags endpoint_flags;
  bool json = false;
  FlagSet flags("status", "[flags]",
                "Prints the processes of a pipeline and their state, KV blocks used and free, and "
                "what waits and runs.\nExit status 0 while it serves, 1 where it does not or "
                "cannot be reached.");
  flags.AddSwitch("json", "One JSON object with the same figures.", &json);
  AddEndpointFlags(flags, absl::StrCat("Default ", kDefaultEndpoint, "."), &endpoint_flags);
  if (const std::optional<int> exit = ParseOrExit(flags, arguments, environment)) return *exit;

  absl::StatusOr<std::unique_ptr<Client>> client = ConnectToEndpoint(endpoint_flags, environment);
  if (!client.ok()) return Fail(client.status(), environment);
  const absl::StatusOr<v1::GetStatusResponse> status = (*client)->GetStatus();
  if (!status.ok()) return Fail(status.status(), environment);
  environment.out << (json ? JsonText(*status) : TextOf(*status, (*client)->name()));
  const int exit = Succeed(environment);
  return exit == kSuccess && !status->serving() ? kFailed : exit;
}

}  // namespace sluice
