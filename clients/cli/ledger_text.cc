#include "clients/cli/ledger_text.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "clients/cli/terminal_text.h"
#include "clients/cli/text_table.h"

namespace sluice {
namespace {

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

std::vector<std::string> CellsOf(const v1::RequestStatus& request) {
  const Sums sums(request);
  return {OnOneLine(request.request_id()),
          OnOneLine(request.tenant()),
          NameOf(request.state()),
          absl::StrCat(request.sequences_size()),
          absl::StrCat(sums.prompt),
          absl::StrCat(sums.generated),
          absl::StrCat(sums.held),
          absl::StrCat(sums.shared),
          absl::StrCat(sums.hits),
          absl::StrCat(sums.copied),
          absl::StrCat(sums.evicted),
          absl::StrCat(sums.preemptions),
          absl::StrCat(sums.recomputed),
          DurationOrDash(request.has_queue_ms(), request.queue_ms()),
          DurationOrDash(request.has_first_token_ms(), request.first_token_ms()),
          Duration(request.age_ms())};
}

std::string SequenceText(const v1::SequenceStatus& sequence, size_t width) {
  const v1::RecomputedPositions& again = sequence.recomputed();
  return absl::StrCat(
      Beside(absl::StrCat("Sequence ", sequence.sequence()),
             absl::StrFormat("%s: %d prompt tokens, %d generated", NameOf(sequence.state()),
                             sequence.num_prompt_tokens(), sequence.num_generated_tokens()),
             width),
      Beside("  blocks",
             absl::StrFormat("%d held, %d of them shared; %d copied, %d cached ones evicted for it",
                             sequence.num_held_blocks(), sequence.num_shared_blocks(),
                             sequence.num_copied_blocks(), sequence.num_evicted_blocks()),
             width),
      Beside("  positions",
             absl::StrFormat("%d computed, %d found by their tokens, %d shared with a sibling",
                             sequence.num_computed_positions(), sequence.num_hit_positions(),
                             sequence.num_shared_positions()),
             width),
      Beside("  again",
             absl::StrFormat(
                 "%d after %d preemptions, %d after losses, %d after growth, %d after pauses",
                 again.after_preemption(), sequence.num_preemptions(), again.after_loss(),
                 again.after_growth(), again.after_pause()),
             width),
      Beside("  drafts",
             absl::StrFormat("%d tokens, %d of them right", sequence.num_drafted_tokens(),
                             sequence.num_accepted_draft_tokens()),
             width));
}

Json RecomputedJson(const v1::RecomputedPositions& recomputed) {
  return {{"after_preemption", recomputed.after_preemption()},
          {"after_loss", recomputed.after_loss()},
          {"after_growth", recomputed.after_growth()},
          {"after_pause", recomputed.after_pause()}};
}

}  // namespace

std::string RequestsTable(const v1::GetStatusResponse& status, int most, size_t width) {
  TextTable table({{.name = "REQUEST", .importance = 0, .cut_to = 24},
                   {.name = "TENANT", .importance = 6, .cut_to = 16},
                   {.name = "STATE", .min_width = 7, .importance = 1, .cut_to = 7},
                   {.name = "SEQ", .importance = 15},
                   {.name = "PROMPT", .importance = 5},
                   {.name = "TOKENS", .importance = 2},
                   {.name = "BLOCKS", .importance = 3},
                   {.name = "SHARED", .importance = 12},
                   {.name = "HIT", .min_width = 6, .importance = 7},
                   {.name = "COPIED", .importance = 14},
                   {.name = "EVICTED", .importance = 13},
                   {.name = "PREEMPTED", .importance = 10},
                   {.name = "AGAIN", .min_width = 6, .importance = 11},
                   {.name = "QUEUE", .min_width = 6, .importance = 9},
                   {.name = "FIRST", .min_width = 6, .importance = 8},
                   {.name = "AGE", .min_width = 6, .importance = 4}});
  const int shown = std::min(status.requests_size(), most);
  for (int i = 0; i < shown; ++i) table.AddRow(CellsOf(status.requests(i)));
  std::string text = table.Text(width);
  const int more = status.requests_size() - shown;
  if (more > 0) absl::StrAppend(&text, "and ", more, " more\n");
  if (status.requests().empty()) absl::StrAppend(&text, "(no requests)\n");
  return text;
}

std::string RequestText(const v1::RequestStatus& request, size_t width) {
  const std::string outcome =
      absl::StrCat(request.outcome().empty() ? "" : ": ", OnOneLine(request.outcome()),
                   request.detail().empty() ? "" : ", ", OnOneLine(request.detail()));
  std::string text = Beside(
      "Request",
      absl::StrCat(OnOneLine(request.request_id()), ", ", NameOf(request.state()), outcome), width);
  text +=
      Beside("Tenant", absl::StrCat(OnOneLine(request.tenant()), ", priority ", request.priority()),
             width);
  text += Beside(
      "Times",
      absl::StrCat(DurationOrDash(request.has_queue_ms(), request.queue_ms()), " until its turn, ",
                   DurationOrDash(request.has_first_token_ms(), request.first_token_ms()),
                   " until its first token, ", Duration(request.age_ms()), " in all"),
      width);
  for (const v1::SequenceStatus& sequence : request.sequences()) {
    text += SequenceText(sequence, width);
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
    if (sequence.num_states() > 0) json["sequences"].back()["num_states"] = sequence.num_states();
  }
  return json;
}

std::string TenantsTable(const v1::GetStatusResponse& status, int most, size_t width) {
  if (status.tenants().empty()) return "";
  TextTable table({{.name = "TENANT", .min_width = 32, .importance = 0, .cut_to = 32},
                   {.name = "RUNNING", .importance = 1},
                   {.name = "WAITING", .importance = 2},
                   {.name = "SERVED", .min_width = 12, .importance = 3}});
  for (int i = 0; i < std::min(status.tenants_size(), most); ++i) {
    const v1::TenantStatus& tenant = status.tenants(i);
    table.AddRow({OnOneLine(tenant.name()), absl::StrCat(tenant.num_running_sequences()),
                  absl::StrCat(tenant.num_waiting_sequences()),
                  absl::StrFormat("%.0f", tenant.served())});
  }
  return table.Text(width);
}

}  // namespace sluice
