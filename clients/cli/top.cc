// `sluice top`: a pipeline at work, on one screen.
#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "clients/cli/commands.h"
#include "clients/cli/connection.h"
#include "clients/cli/ledger_text.h"
#include "clients/cli/outcome.h"
#include "clients/cli/refresh.h"
#include "clients/cli/terminal_text.h"
#include "services/options/help_text.h"

namespace sluice {
namespace {

constexpr int kBarWidth = 40;
constexpr int kMostTenants = 5;

// "[#####++++........]": used, cached, free; shorter on a narrow terminal.
std::string Bar(const v1::KvCacheStatus& cache, size_t width) {
  constexpr int kBeside = 14;  // the name, and brackets
  const int length =
      width == 0 ? kBarWidth : std::clamp(static_cast<int>(width) - kBeside, 10, kBarWidth);
  const int blocks = std::max(cache.num_blocks(), 1);
  const auto part = [&](int64_t count) {
    return static_cast<int>((count * length + blocks / 2) / blocks);
  };
  const int used = part(cache.num_used_blocks());
  const int taken = part(int64_t{cache.num_used_blocks()} + cache.num_cached_blocks());
  return absl::StrCat("[", std::string(used, '#'), std::string(taken - used, '+'),
                      std::string(std::max(length - taken, 0), '.'), "]");
}

// What counters say of the time between two looks; "-" where there was none or the server began
// anew.
class Rates {
 public:
  Rates(const std::optional<v1::GetStatusResponse>& before, const v1::GetStatusResponse& now) {
    if (!before.has_value() || now.uptime_ms() <= before->uptime_ms()) return;
    seconds_ = static_cast<double>(now.uptime_ms() - before->uptime_ms()) / 1000;
  }
  std::string Of(uint64_t before, uint64_t now) const {
    if (seconds_ == 0 || now < before) return "-";
    return absl::StrFormat("%.1f", static_cast<double>(now - before) / seconds_);
  }

 private:
  double seconds_ = 0;
};

std::string HitRate(const v1::GetStatusResponse& status) {
  const auto hits = static_cast<double>(status.kv_cache().num_hit_positions());
  const double all = hits + static_cast<double>(status.num_computed_positions());
  return all == 0 ? "-" : absl::StrFormat("%.0f%%", 100 * hits / all);
}

std::string Frame(const std::string& endpoint, const std::optional<v1::GetStatusResponse>& before,
                  const v1::GetStatusResponse& now, int most_requests, size_t width) {
  const v1::GetStatusResponse& then = before.has_value() ? *before : now;
  const Rates rates(before, now);
  const v1::KvCacheStatus& cache = now.kv_cache();
  const auto num_ready =
      std::count_if(now.processes().begin(), now.processes().end(),
                    [](const auto& process) { return process.state() == v1::PROCESS_STATE_READY; });
  const std::string head = absl::StrFormat(
      "%s  %s  %s  up %s  %d of %d processes ready  epoch %d  %d recoveries", endpoint,
      now.model_name(), now.serving() ? "serving" : "NOT SERVING",
      absl::FormatDuration(absl::Trunc(absl::Milliseconds(now.uptime_ms()), absl::Seconds(1))),
      num_ready, now.processes_size(), now.epoch(), now.num_recoveries());
  std::string frame =
      absl::StrCat(width == 0 ? head : absl::StrJoin(Wrapped(head, width), "\n"), "\n\n");
  const auto add = [&](const char* name, const std::string& line) {
    absl::StrAppend(&frame, Beside(name, line, width));
  };
  add("KV blocks",
      absl::StrFormat("%s %d used (#), %d cached (+), %d free; %s of positions found again",
                      Bar(cache, width), cache.num_used_blocks(), cache.num_cached_blocks(),
                      cache.num_free_blocks(), HitRate(now)));
  add("Sequences",
      absl::StrFormat("%d running, %d waiting, %d paused; a new one's turn comes in %s",
                      now.num_running_sequences(), now.num_waiting_sequences(),
                      now.num_paused_sequences(),
                      now.has_estimated_wait_ms()
                          ? absl::FormatDuration(absl::Milliseconds(now.estimated_wait_ms()))
                          : "?"));
  add("A second",
      absl::StrFormat("%s tokens, %s positions computed, %s found again, %s steps\n"
                      "%s preemptions, %s blocks evicted, %s copied",
                      rates.Of(then.num_generated_tokens(), now.num_generated_tokens()),
                      rates.Of(then.num_computed_positions(), now.num_computed_positions()),
                      rates.Of(then.kv_cache().num_hit_positions(), cache.num_hit_positions()),
                      rates.Of(then.num_steps(), now.num_steps()),
                      rates.Of(then.num_preemptions(), now.num_preemptions()),
                      rates.Of(then.kv_cache().num_evicted_blocks(), cache.num_evicted_blocks()),
                      rates.Of(then.kv_cache().num_copied_blocks(), cache.num_copied_blocks())));
  absl::StrAppend(&frame, "\n");
  const std::string tenants = TenantsTable(now, kMostTenants, width);
  absl::StrAppend(&frame, tenants, tenants.empty() ? "" : "\n",
                  RequestsTable(now, most_requests, width));
  return frame;
}

}  // namespace

int TopCommand(absl::Span<const std::string> arguments, Environment& environment) {
  EndpointFlags endpoint_flags;
  absl::Duration interval = absl::Seconds(1);
  int32_t rows = 20;
  FlagSet flags("top", "[flags]",
                "Shows a pipeline at work until Ctrl-C: KV blocks, queue, rates, tenants and "
                "requests.\nWhere stdout is no terminal, one picture after another.");
  flags.Add("interval", "DURATION", "Time between two looks. Default 1s.", &interval);
  flags.AddParsed("rows", "N", "Requests shown, 1 to 1000. Default 20.",
                  FlagSet::IntegerFrom(1, 1000, &rows));
  AddEndpointFlags(flags, absl::StrCat("Default ", kDefaultEndpoint, "."), &endpoint_flags);
  if (const std::optional<int> exit = ParseOrExit(flags, arguments, environment)) return *exit;

  absl::StatusOr<std::unique_ptr<Client>> client = ConnectToEndpoint(endpoint_flags, environment);
  if (!client.ok()) return Fail(client.status(), environment);
  v1::GetStatusRequest request;
  request.set_include_requests(true);
  std::optional<v1::GetStatusResponse> before;
  return ShowUntilInterrupted(environment, interval, [&]() -> absl::StatusOr<std::string> {
    absl::StatusOr<v1::GetStatusResponse> now = (*client)->GetStatus(request);
    if (!now.ok()) return now.status();
    std::string frame = Frame((*client)->name(), before, *now, rows, environment.text_width());
    before = *std::move(now);
    return frame;
  });
}

}  // namespace sluice
