#include "clients/cli/ledger_text.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "clients/cli/terminal_text.h"

namespace sluice {
namespace {

constexpr size_t kWidestId = 24;
constexpr size_t kWidestTenant = 16;

const char* NameOf(v1::RequestState state) {
  switch (state) {
    case v1::REQUEST_STATE_WAITING:
      return "waiting";
    case v1::REQUEST_STATE_RUNNING:
      return "running";
    case v1::REQUEST_STATE_PAUSED:
      return "paused";
    case v1::REQUEST_STATE_ENDED:
      return "ended";
    default:
      return "unspecified";
  }
}

// On one line, cut with ".." where it is too long.
std::string Cell(const std::string& text, size_t most) {
  std::string cell = Printable(text);
  std::replace(cell.begin(), cell.end(), '\n', ' ');
  std::replace(cell.begin(), cell.end(), '\t', ' ');
  return cell.size() <= most ? cell : absl::StrCat(cell.substr(0, most - 2), "..");
}

std::string Duration(uint64_t milliseconds) {
  if (milliseconds < 1000) return absl::StrCat(milliseconds, "ms");
  if (milliseconds < 100'000) {
    return absl::StrFormat("%.1fs", static_cast<double>(milliseconds) / 1000);
  }
  return absl::FormatDuration(absl::Trunc(absl::Milliseconds(milliseconds), absl::Seconds(1)));
}

std::string DurationOrDash(bool known, uint64_t milliseconds) {
  return known ? Duration(milliseconds) : "-";
}

int64_t Recomputed(const v1::RecomputedPositions& recomputed) {
  return recomputed.after_preemption() + recomputed.after_loss() + recomputed.after_growth() +
         recomputed.after_pause();
}

// Over all sequences; blocks that siblings share count for each.
struct Sums {
  explicit Sums(const v1::RequestStatus& request) {
    for (const v1::SequenceStatus& sequence : request.sequences()) {
      prompt = sequence.num_prompt_tokens();
      generated += sequence.num_generated_tokens();
      held += sequence.num_held_blocks();
      shared += sequence.num_shared_blocks();
      hits += sequence.num_hit_positions() + sequence.num_shared_positions();
      copied += sequence.num_copied_blocks();
      evicted += sequence.num_evicted_blocks();
      preemptions += sequence.num_preemptions();
      recomputed += Recomputed(sequence.recomputed());
    }
  }
  int32_t prompt = 0;
  int64_t generated = 0, held = 0, shared = 0, hits = 0;
  int64_t copied = 0, evicted = 0, preemptions = 0, recomputed = 0;
};

Json RecomputedJson(const v1::RecomputedPositions& recomputed) {
  return {{"after_preemption", recomputed.after_preemption()},
          {"after_loss", recomputed.after_loss()},
          {"after_growth", recomputed.after_growth()},
          {"after_pause", recomputed.after_pause()}};
}

}  // namespace

std::string RequestsTable(const v1::GetStatusResponse& status, int most) {
  std::string table = absl::StrFormat(
      "%-24s  %-16s  %-7s  %3s  %7s  %7s  %6s  %6s  %7s  %6s  %7s  %9s  %7s  %7s  %7s  %7s\n",
      "REQUEST", "TENANT", "STATE", "SEQ", "PROMPT", "TOKENS", "BLOCKS", "SHARED", "HIT", "COPIED",
      "EVICTED", "PREEMPTED", "AGAIN", "QUEUE", "FIRST", "AGE");
  int shown = 0;
  for (const v1::RequestStatus& request : status.requests()) {
    if (shown == most) break;
    ++shown;
    const Sums sums(request);
    absl::StrAppendFormat(
        &table,
        "%-24s  %-16s  %-7s  %3d  %7d  %7d  %6d  %6d  %7d  %6d  %7d  %9d  %7d  %7s  %7s  %7s\n",
        Cell(request.request_id(), kWidestId), Cell(request.tenant(), kWidestTenant),
        NameOf(request.state()), request.sequences_size(), sums.prompt, sums.generated, sums.held,
        sums.shared, sums.hits, sums.copied, sums.evicted, sums.preemptions, sums.recomputed,
        DurationOrDash(request.has_queue_ms(), request.queue_ms()),
        DurationOrDash(request.has_first_token_ms(), request.first_token_ms()),
        Duration(request.age_ms()));
  }
  const int more = status.requests_size() - shown;
  if (more > 0) absl::StrAppend(&table, "and ", more, " more\n");
  if (status.requests().empty()) absl::StrAppend(&table, "(no requests)\n");
  return table;
}

std::string RequestText(const v1::RequestStatus& request) {
  const auto line = [](const std::string& text) { return Cell(text, 1000); };
  std::string text = absl::StrFormat(
      "Request     %s, %s%s%s%s%s\nTenant      %s, priority %d\n"
      "Times       %s until its turn, %s until its first token, %s in all\n",
      line(request.request_id()), NameOf(request.state()), request.outcome().empty() ? "" : ": ",
      line(request.outcome()), request.detail().empty() ? "" : ", ", line(request.detail()),
      line(request.tenant()), request.priority(),
      DurationOrDash(request.has_queue_ms(), request.queue_ms()),
      DurationOrDash(request.has_first_token_ms(), request.first_token_ms()),
      Duration(request.age_ms()));
  for (const v1::SequenceStatus& sequence : request.sequences()) {
    const v1::RecomputedPositions& again = sequence.recomputed();
    absl::StrAppendFormat(
        &text,
        "Sequence %d  %s: %d prompt tokens, %d generated\n"
        "  blocks    %d held, %d of them shared; %d copied, %d cached ones evicted for it\n"
        "  positions %d computed, %d found by their tokens, %d shared with a sibling\n"
        "  again     %d after %d preemptions, %d after losses, %d after growth, %d after pauses\n"
        "  drafts    %d tokens, %d of them right\n",
        sequence.sequence(), NameOf(sequence.state()), sequence.num_prompt_tokens(),
        sequence.num_generated_tokens(), sequence.num_held_blocks(), sequence.num_shared_blocks(),
        sequence.num_copied_blocks(), sequence.num_evicted_blocks(),
        sequence.num_computed_positions(), sequence.num_hit_positions(),
        sequence.num_shared_positions(), again.after_preemption(), sequence.num_preemptions(),
        again.after_loss(), again.after_growth(), again.after_pause(),
        sequence.num_drafted_tokens(), sequence.num_accepted_draft_tokens());
  }
  return text;
}

Json RequestJson(const v1::RequestStatus& request) {
  Json json = {{"request_id", request.request_id()}, {"tenant", request.tenant()},
               {"priority", request.priority()},     {"state", NameOf(request.state())},
               {"outcome", request.outcome()},       {"detail", request.detail()},
               {"age_ms", request.age_ms()}};
  if (request.has_queue_ms()) json["queue_ms"] = request.queue_ms();
  if (request.has_first_token_ms()) json["first_token_ms"] = request.first_token_ms();
  json["sequences"] = Json::array();
  for (const v1::SequenceStatus& sequence : request.sequences()) {
    json["sequences"].push_back(
        {{"sequence", sequence.sequence()},
         {"state", NameOf(sequence.state())},
         {"num_prompt_tokens", sequence.num_prompt_tokens()},
         {"num_generated_tokens", sequence.num_generated_tokens()},
         {"num_held_blocks", sequence.num_held_blocks()},
         {"num_shared_blocks", sequence.num_shared_blocks()},
         {"num_copied_blocks", sequence.num_copied_blocks()},
         {"num_evicted_blocks", sequence.num_evicted_blocks()},
         {"num_preemptions", sequence.num_preemptions()},
         {"num_computed_positions", sequence.num_computed_positions()},
         {"num_hit_positions", sequence.num_hit_positions()},
         {"num_shared_positions", sequence.num_shared_positions()},
         {"recomputed", RecomputedJson(sequence.recomputed())},
         {"num_drafted_tokens", sequence.num_drafted_tokens()},
         {"num_accepted_draft_tokens", sequence.num_accepted_draft_tokens()}});
  }
  return json;
}

std::string TenantsTable(const v1::GetStatusResponse& status, int most) {
  if (status.tenants().empty()) return "";
  std::string table =
      absl::StrFormat("%-32s  %7s  %7s  %12s\n", "TENANT", "RUNNING", "WAITING", "SERVED");
  for (int i = 0; i < std::min(status.tenants_size(), most); ++i) {
    const v1::TenantStatus& tenant = status.tenants(i);
    absl::StrAppendFormat(&table, "%-32s  %7d  %7d  %12.0f\n", Cell(tenant.name(), 32),
                          tenant.num_running_sequences(), tenant.num_waiting_sequences(),
                          tenant.served());
  }
  return table;
}

}  // namespace sluice
