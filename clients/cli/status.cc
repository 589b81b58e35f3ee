// `sluice status`: what runs where, and how it is.
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "clients/cli/commands.h"
#include "clients/cli/connection.h"
#include "clients/cli/exit_code.h"
#include "clients/cli/json.h"
#include "clients/cli/ledger_text.h"
#include "clients/cli/outcome.h"
#include "clients/cli/refresh.h"
#include "clients/cli/terminal_text.h"
#include "clients/cli/text_table.h"
#include "services/options/help_text.h"

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

// The part of a shard's time at work; "-" where it has not worked.
std::string ShareOf(uint64_t time_us, const v1::ProcessStatus& process) {
  const uint64_t all = process.busy_us() + process.gap_us();
  if (all == 0) return "-";
  return absl::StrFormat("%.1f%%", 100 * static_cast<double>(time_us) / static_cast<double>(all));
}

// In which it had nothing to do though requests were under way.
std::string GapShare(const v1::ProcessStatus& process) {
  return ShareOf(process.gap_us(), process);
}

// And nobody else computed what it waited for.
std::string SystemGapShare(const v1::ProcessStatus& process) {
  return ShareOf(process.gap_us() - process.gap_computed_us(), process);
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
    json["busy_us"] = process.busy_us();
    json["gap_us"] = process.gap_us();
    json["gap_computed_us"] = process.gap_computed_us();
  }
  if (!process.arithmetic().empty()) json["arithmetic"] = process.arithmetic();
  return json;
}

Json KvCacheJson(const v1::KvCacheStatus& kv_cache) {
  Json json = {{"block_size", kv_cache.block_size()},
               {"num_blocks", kv_cache.num_blocks()},
               {"num_used_blocks", kv_cache.num_used_blocks()},
               {"num_shared_blocks", kv_cache.num_shared_blocks()},
               {"num_cached_blocks", kv_cache.num_cached_blocks()},
               {"num_free_blocks", kv_cache.num_free_blocks()},
               {"num_hit_positions", kv_cache.num_hit_positions()},
               {"num_copied_blocks", kv_cache.num_copied_blocks()},
               {"num_evicted_blocks", kv_cache.num_evicted_blocks()}};
  if (kv_cache.num_states() == 0) return json;
  json["num_states"] = kv_cache.num_states();
  json["num_used_states"] = kv_cache.num_used_states();
  json["num_cached_states"] = kv_cache.num_cached_states();
  json["num_evicted_states"] = kv_cache.num_evicted_states();
  return json;
}

Json DraftModelJson(const v1::DraftModelStatus& model) {
  return {{"ready", model.ready()},
          {"epoch", model.epoch()},
          {"kv_cache", KvCacheJson(model.kv_cache())},
          {"num_sequences", model.num_sequences()},
          {"num_steps", model.num_steps()},
          {"num_proposed_tokens", model.num_proposed_tokens()},
          {"num_recoveries", model.num_recoveries()}};
}

std::string JsonText(const v1::GetStatusResponse& status, bool with_requests) {
  Json json = {{"serving", status.serving()},
               {"model", status.model_name()},
               {"epoch", status.epoch()},
               {"num_stages", status.num_stages()},
               {"num_ranks", status.num_ranks()}};
  json["processes"] = Json::array();
  for (const v1::ProcessStatus& process : status.processes()) {
    json["processes"].push_back(ProcessJson(process));
  }
  json["kv_cache"] = KvCacheJson(status.kv_cache());
  json["num_waiting_sequences"] = status.num_waiting_sequences();
  json["num_running_sequences"] = status.num_running_sequences();
  json["num_steps"] = status.num_steps();
  json["num_generated_tokens"] = status.num_generated_tokens();
  json["num_recoveries"] = status.num_recoveries();
  json["uptime_ms"] = status.uptime_ms();
  json["num_paused_sequences"] = status.num_paused_sequences();
  json["num_preemptions"] = status.num_preemptions();
  json["num_computed_positions"] = status.num_computed_positions();
  json["num_drafted_tokens"] = status.num_drafted_tokens();
  json["num_accepted_draft_tokens"] = status.num_accepted_draft_tokens();
  if (status.has_draft_model()) json["draft_model"] = DraftModelJson(status.draft_model());
  json["num_integrity_checks"] = status.num_integrity_checks();
  json["num_integrity_faults"] = status.num_integrity_faults();
  if (status.has_estimated_wait_ms()) json["estimated_wait_ms"] = status.estimated_wait_ms();
  if (with_requests) {
    json["requests"] = Json::array();
    for (const v1::RequestStatus& request : status.requests()) {
      json["requests"].push_back(RequestJson(request));
    }
  }
  return DumpLine(json) + "\n";
}

// As wide as what is in it, or where `width` is not 0, with the columns that matter most.
std::string ProcessTable(const v1::GetStatusResponse& status, size_t width) {
  constexpr size_t kLongestName = 15, kLongestText = 40;
  TextTable table({{.name = "SERVICE", .min_width = 10, .importance = 0, .cut_to = kLongestName},
                   {.name = "STAGE", .importance = 2},
                   {.name = "RANK", .importance = 3},
                   {.name = "STATE", .min_width = 10, .importance = 1, .cut_to = kLongestName},
                   {.name = "WEIGHTS", .min_width = 9, .importance = 5},
                   {.name = "KV CACHE", .min_width = 9, .importance = 6},
                   {.name = "GAPS", .min_width = 6, .importance = 8},
                   {.name = "SYSTEM", .min_width = 6, .importance = 9},
                   {.name = "ADDRESS", .importance = 7, .cut_to = kLongestText},
                   {.name = "DETAIL", .importance = 4, .cut_to = kLongestText}});
  for (const v1::ProcessStatus& process : status.processes()) {
    const bool shard = IsShard(process);
    // What is wrong with it or, where nothing is, what it computes with.
    const std::string& detail = process.detail().empty() ? process.arithmetic() : process.detail();
    table.AddRow({process.service(), shard ? absl::StrCat(process.stage()) : "-",
                  shard ? absl::StrCat(process.rank()) : "-", NameOf(process.state()),
                  Mebibytes(process.weight_bytes()), Mebibytes(process.kv_bytes()),
                  GapShare(process), SystemGapShare(process), OnOneLine(process.address()),
                  OnOneLine(detail)});
  }
  return table.Text(width);
}

// What `detail` has cut off, where that is why a process is not ready.
std::string Faults(const v1::GetStatusResponse& status, size_t width) {
  std::string text;
  for (const v1::ProcessStatus& process : status.processes()) {
    if (width == 0 || process.detail().empty()) continue;
    absl::StrAppend(&text, Beside(process.service(), process.detail(), width));
  }
  return text;
}

std::string OnLines(const std::string& text, size_t width) {
  return width == 0 ? text : absl::StrJoin(Wrapped(text, width), "\n");
}

std::string DraftModelText(const v1::GetStatusResponse& status, size_t width) {
  if (!status.has_draft_model()) return "";
  const v1::DraftModelStatus& model = status.draft_model();
  const std::string text = absl::StrFormat(
      "Draft model %s, %d sequences, %d tokens proposed in %d steps, %d recoveries\n"
      "Its blocks  %d used, %d cached, %d free, %d in all, of %d positions each",
      model.ready() ? "ready" : "not ready", model.num_sequences(), model.num_proposed_tokens(),
      model.num_steps(), model.num_recoveries(), model.kv_cache().num_used_blocks(),
      model.kv_cache().num_cached_blocks(), model.kv_cache().num_free_blocks(),
      model.kv_cache().num_blocks(), model.kv_cache().block_size());
  return absl::StrCat(OnLines(text, width), "\n");
}

std::string TextOf(const v1::GetStatusResponse& status, const std::string& endpoint, size_t width) {
  const v1::KvCacheStatus& cache = status.kv_cache();
  const std::string first = absl::StrFormat(
      "%s is %s: model %s, stages %d, ranks %d, up %s", endpoint,
      status.serving() ? "serving" : "not serving", status.model_name(), status.num_stages(),
      status.num_ranks(), absl::FormatDuration(absl::Milliseconds(status.uptime_ms())));
  std::string text = absl::StrCat(OnLines(first, width), "\n\n", ProcessTable(status, width),
                                  Faults(status, width), "\n");
  const auto add = [&](const char* head, const std::string& line) {
    absl::StrAppend(&text, Beside(head, line, width));
  };
  add("KV blocks",
      absl::StrFormat("%d used, %d cached, %d free, %d in all, of %d positions each",
                      cache.num_used_blocks(), cache.num_cached_blocks(), cache.num_free_blocks(),
                      cache.num_blocks(), cache.block_size()));
  if (cache.num_states() > 0) {
    add("States", absl::StrFormat("%d used, %d kept for prefixes, %d in all, %d evicted",
                                  cache.num_used_states(), cache.num_cached_states(),
                                  cache.num_states(), cache.num_evicted_states()));
  }
  add("Prefixes", absl::StrFormat("%d positions found again, %d blocks copied, %d evicted",
                                  cache.num_hit_positions(), cache.num_copied_blocks(),
                                  cache.num_evicted_blocks()));
  add("Sequences", absl::StrFormat("%d running, %d waiting, %d paused; %d preemptions so far",
                                   status.num_running_sequences(), status.num_waiting_sequences(),
                                   status.num_paused_sequences(), status.num_preemptions()));
  add("Steps", absl::StrFormat("%d, %d tokens generated", status.num_steps(),
                               status.num_generated_tokens()));
  add("Drafts", absl::StrFormat("%d tokens, %d of them right", status.num_drafted_tokens(),
                                status.num_accepted_draft_tokens()));
  absl::StrAppend(&text, DraftModelText(status, width));
  add("Recoveries", absl::StrFormat("%d, epoch %d", status.num_recoveries(), status.epoch()));
  add("Books", absl::StrFormat("checked %d times while idle, wrong %d times",
                               status.num_integrity_checks(), status.num_integrity_faults()));
  return text;
}

// What is asked for, and how it is shown.
struct StatusFlags {
  EndpointFlags endpoint;
  bool json = false;
  bool requests = false;
  std::string request;
  bool watch = false;
  absl::Duration interval = absl::Seconds(1);
};

absl::StatusOr<std::string> Show(const StatusFlags& flags, const v1::GetStatusResponse& status,
                                 const std::string& endpoint, size_t width) {
  if (!flags.request.empty() && status.requests().empty()) {
    return absl::NotFoundError(absl::StrCat("request ", flags.request,
                                            " is not being served, nor among the last that ended"));
  }
  if (flags.json) return JsonText(status, flags.requests || !flags.request.empty());
  if (flags.requests) return RequestsTable(status, status.requests_size(), width);
  if (flags.request.empty()) return TextOf(status, endpoint, width);
  std::string text;
  for (const v1::RequestStatus& request : status.requests()) {
    absl::StrAppend(&text, text.empty() ? "" : "\n", RequestText(request, width));
  }
  return text;
}

absl::Status Check(const StatusFlags& flags) {
  if (!flags.requests || flags.request.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError("--requests and --request were both given; choose one");
}

}  // namespace

int StatusCommand(absl::Span<const std::string> arguments, Environment& environment) {
  StatusFlags asked;
  FlagSet flags("status", "[flags]",
                "Prints the processes of a pipeline and their state, KV blocks used and free, and "
                "what waits and runs.\nGAPS: the part of a shard's time at work that it waited "
                "between two steps. "
                "SYSTEM: of it, the part in which no other stage computed either.\nExit status 0 "
                "while it serves, 1 where it does not or "
                "cannot be reached.");
  flags.AddSwitch("requests", "A line for each request being served: its blocks and tokens.",
                  &asked.requests);
  flags.Add("request", "ID", "All about one request, also where it ended of late.", &asked.request);
  flags.AddSwitch("watch", "Shows it again and again, until Ctrl-C.", &asked.watch);
  flags.Add("interval", "DURATION", "With --watch: time between two looks. Default 1s.",
            &asked.interval);
  flags.AddSwitch("json", "One JSON object with the same figures.", &asked.json);
  AddEndpointFlags(flags, absl::StrCat("Default ", kDefaultEndpoint, "."), &asked.endpoint);
  if (const std::optional<int> exit = ParseOrExit(flags, arguments, environment)) return *exit;
  if (const absl::Status wrong = Check(asked); !wrong.ok()) {
    return FailUsage(flags.command(), wrong, environment);
  }

  absl::StatusOr<std::unique_ptr<Client>> client = ConnectToEndpoint(asked.endpoint, environment);
  if (!client.ok()) return Fail(client.status(), environment);
  v1::GetStatusRequest request;
  request.set_include_requests(asked.requests);
  request.set_request_id(asked.request);
  bool serving = false;
  const auto look = [&]() -> absl::StatusOr<std::string> {
    const absl::StatusOr<v1::GetStatusResponse> status = (*client)->GetStatus(request);
    if (!status.ok()) return status.status();
    serving = status->serving();
    absl::StatusOr<std::string> text =
        Show(asked, *status, (*client)->name(), environment.text_width());
    if (text.ok() && environment.out_is_terminal) *text = Printable(*text);
    return text;
  };
  if (asked.watch) return ShowUntilInterrupted(environment, asked.interval, look);
  const absl::StatusOr<std::string> text = look();
  if (!text.ok()) return Fail(text.status(), environment);
  environment.out << *text;
  const int exit = Succeed(environment);
  return exit == kSuccess && !serving ? kFailed : exit;
}

}  // namespace sluice
