#include "services/gateway/api/sent_names.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "services/gateway/json/object_reader.h"

namespace sluice::gateway {
namespace {

constexpr absl::string_view kWordCharacters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.";

struct Field {
  absl::string_view name;
  absl::string_view parameter;
};

// Called the same in all APIs.
constexpr Field kFields[] = {
    {"stop.ignore_eos", "ignore_eos"},
    {"stop.stop_token_ids", "stop_token_ids"},
    {"stop.include_stop_string", "include_stop_str_in_output"},
    {"beams.beam_width", "beam_width"},
    {"beams.num_return", "n"},
    {"beams.length_penalty", "length_penalty"},
    {"beams.early_stopping", "early_stopping"},
    {"beams.stochastic", "stochastic_beams"},
    {"variables_json", "chat_template_kwargs"},
    {"tools_json", "tools"},
    {"drafts.decline", "decline_drafts"},
    {"drafts.max_tokens", "max_draft_tokens"},
    {"drafts.expected_token_ids", "prediction"},
};
// Parameters of their own name where a message begins with it; elsewhere these are plain words.
constexpr absl::string_view kAtFront[] = {
    "n", "best_of", "logprobs", "priority", "logprobs_mode", "prompt_logprobs", "cache_salt"};

std::string ParameterOf(absl::string_view word, bool is_front, const SentNames& names) {
  if (absl::ConsumePrefix(&word, "sampling.")) return std::string(word);
  if (word == "max_tokens") return names.max_tokens;
  if (word == "stop.stop_strings") return names.stop;
  if (word == "constraint" || absl::StartsWith(word, "constraint.")) return names.constraint;
  const bool is_prompt = word == "token_ids" || word == "inputs" || word == "chat.messages";
  if (is_front && is_prompt) return names.prompt;
  if (is_front && word == "top") return "top_logprobs";
  for (const Field& field : kFields) {
    if (word == field.name) return std::string(field.parameter);
  }
  const bool is_parameter =
      std::find(std::begin(kAtFront), std::end(kAtFront), word) != std::end(kAtFront);
  return is_front && is_parameter ? std::string(word) : "";
}

// A message in the client's words, and the first parameter in it.
struct Translation {
  std::string message;
  std::string parameter;
};

Translation Translated(absl::string_view message, const SentNames& names) {
  Translation made;
  // Behind these words stands what the message is about.
  constexpr absl::string_view kBefore[] = {"the number of ", "the length of a string in ",
                                           "the length of "};
  size_t front = 0;
  for (const absl::string_view before : kBefore) {
    if (front == 0 && absl::StartsWith(message, before)) front = before.size();
  }
  for (size_t at = 0; at < message.size();) {
    const size_t begin = std::min(message.find_first_of(kWordCharacters, at), message.size());
    const size_t end = std::min(message.find_first_not_of(kWordCharacters, begin), message.size());
    absl::string_view word = message.substr(begin, end - begin);
    while (absl::ConsumeSuffix(&word, ".")) {
    }
    const std::string parameter = ParameterOf(word, begin == front, names);
    absl::StrAppend(&made.message, message.substr(at, begin - at),
                    parameter.empty() ? word : absl::string_view(parameter),
                    message.substr(begin + word.size(), end - begin - word.size()));
    if (made.parameter.empty()) made.parameter = parameter;
    at = end;
  }
  return made;
}

bool SetsPriority(const SentNames& names) {
  return names.service_tier == "flex" || names.service_tier == "priority";
}

// Priorities rise in gRPC, and fall in vLLM's parameter: "priority is -1; accepted for tenant "x":
// 0, 1".
std::string PriorityMessage(absl::string_view message, const SentNames& names) {
  const size_t mark = message.find("; ");
  const size_t colon = message.rfind(": ");
  if (mark == absl::string_view::npos || colon == absl::string_view::npos || colon < mark) {
    return std::string(message);
  }
  int32_t sent = 0;
  std::vector<int32_t> accepted;
  absl::string_view value = message.substr(0, mark);
  if (!absl::ConsumePrefix(&value, "priority is ") || !absl::SimpleAtoi(value, &sent)) {
    return std::string(message);
  }
  for (const absl::string_view number : absl::StrSplit(message.substr(colon + 2), ", ")) {
    accepted.emplace_back();
    if (!absl::SimpleAtoi(number, &accepted.back())) return std::string(message);
  }
  const absl::string_view whom = message.substr(mark, colon + 2 - mark);
  if (!SetsPriority(names)) {
    for (int32_t& number : accepted) number = -number;
    return absl::StrCat("priority is ", -sent, whom, absl::StrJoin(accepted, ", "));
  }
  std::vector<absl::string_view> tiers;
  const auto accepts = [&](int32_t priority) {
    return std::find(accepted.begin(), accepted.end(), priority) != accepted.end();
  };
  if (accepts(0)) tiers.insert(tiers.end(), {"auto", "default"});
  if (accepts(-1)) tiers.push_back("flex");
  if (accepts(1)) tiers.push_back("priority");
  return absl::StrCat("service_tier is ", names.service_tier, whom, absl::StrJoin(tiers, ", "));
}

bool TakeNumber(absl::string_view& text, int64_t& number) {
  const size_t size = std::min(text.find_first_not_of("0123456789"), text.size());
  if (!absl::SimpleAtoi(text.substr(0, size), &number)) return false;
  text.remove_prefix(size);
  return true;
}

// Replaces the message, and keeps everything else.
absl::Status WithMessage(const absl::Status& status, absl::string_view message) {
  absl::Status made(status.code(), message);
  status.ForEachPayload(
      [&made](absl::string_view url, const absl::Cord& payload) { made.SetPayload(url, payload); });
  return made;
}

void SetIfMissing(absl::Status& status, const char* payload, absl::string_view value) {
  if (!value.empty() && !status.GetPayload(payload).has_value()) {
    status.SetPayload(payload, absl::Cord(value));
  }
}

}  // namespace

std::optional<ContextOverflow> ContextOverflowOf(const absl::Status& status) {
  absl::string_view text = status.message();
  ContextOverflow overflow;
  if (!absl::ConsumePrefix(&text, "the prompt has ") ||
      !TakeNumber(text, overflow.num_prompt_tokens)) {
    return std::nullopt;
  }
  const bool is_alone =
      absl::ConsumePrefix(&text, " tokens, which leaves no room in the context of ");
  const bool is_sum = !is_alone && absl::ConsumePrefix(&text, " tokens and max_tokens is ") &&
                      TakeNumber(text, overflow.max_tokens) &&
                      absl::ConsumePrefix(&text, ", together more than the context of ");
  if ((!is_alone && !is_sum) || !TakeNumber(text, overflow.context)) return std::nullopt;
  return overflow;
}

absl::Status AsSent(const absl::Status& status, const SentNames& names) {
  if (status.ok()) return status;
  const absl::string_view message = status.message();
  if (const auto overflow = ContextOverflowOf(status)) {
    // Each API has its own words for it, which its clients look for.
    absl::Status made = status;
    SetIfMissing(made, kCodePayload, kContextLengthExceeded);
    SetIfMissing(made, kParameterPayload,
                 overflow->max_tokens == 0 ? names.prompt : names.max_tokens);
    return made;
  }
  if (absl::IsUnauthenticated(status)) {
    constexpr absl::string_view kMetadata = "the call needs metadata \"authorization: ";
    absl::string_view rest = message;
    if (!absl::ConsumePrefix(&rest, kMetadata)) return status;
    return WithMessage(status, absl::StrCat("the call needs the header \"authorization: ", rest));
  }
  // Found by the gateway itself, which speaks of what was sent.
  if (status.GetPayload(kParameterPayload).has_value()) return status;
  if (absl::StartsWith(message, "priority is ")) {
    absl::Status made = WithMessage(status, PriorityMessage(message, names));
    SetIfMissing(made, kParameterPayload, SetsPriority(names) ? "service_tier" : "priority");
    return made;
  }
  const Translation translation = Translated(message, names);
  absl::Status made = WithMessage(status, translation.message);
  const bool is_about_prompt = absl::StartsWith(message, "the prompt");
  SetIfMissing(made, kParameterPayload, is_about_prompt ? names.prompt : translation.parameter);
  return made;
}

}  // namespace sluice::gateway
