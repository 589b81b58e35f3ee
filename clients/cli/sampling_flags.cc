#include "clients/cli/sampling_flags.h"

#include <algorithm>
#include <string>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "clients/cli/text_input.h"
#include "kernels/sampling_options/sampling_check.h"
#include "kernels/sampling_options/sampling_options.h"
#include "kernels/sampling_options/sampling_reference.h"
#include "services/messages/sampling_message.h"

namespace sluice {
namespace {

absl::Status Parse(const std::string& text, std::vector<int32_t>& into) {
  absl::StatusOr<std::vector<int32_t>> ids = ParseTokenIds(text);
  if (!ids.ok()) return ids.status();
  into = *std::move(ids);
  return absl::OkStatus();
}

// "15=-2.5,7=3"
absl::Status Parse(const std::string& text, std::vector<TokenBias>& into) {
  into.clear();
  for (const absl::string_view entry : absl::StrSplit(text, ',')) {
    const std::vector<std::string> parts = absl::StrSplit(entry, '=');
    TokenBias bias;
    if (parts.size() != 2 || !ParseFlagValue(parts[0], &bias.id).ok() ||
        !ParseFlagValue(parts[1], &bias.bias).ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", entry, "\" is not a token id, =, and a number, such as 15=-2.5"));
    }
    into.push_back(bias);
  }
  return absl::OkStatus();
}

// One word; the flag's next occurrence adds another.
absl::Status Parse(const std::string& text, std::vector<std::vector<int32_t>>& into) {
  return Parse(text, into.emplace_back());
}

template <typename Number>
absl::Status Parse(const std::string& text, Number& into) {
  return ParseFlagValue(text, &into);
}

std::string HelpOf(const SamplingParameter& parameter) {
  const std::string accepted = AcceptedText(parameter), neutral = NeutralText(parameter);
  return absl::StrCat(parameter.help, " Accepted: ", accepted, "; neutral: ", neutral, ".");
}

}  // namespace

void AddSamplingParameters(FlagSet& flags, v1::SamplingOptions* into,
                           std::initializer_list<absl::string_view> except) {
  for (const SamplingParameter& parameter : kSamplingParameters) {
    if (std::find(except.begin(), except.end(), parameter.name) != except.end()) continue;
    const auto parse = [&parameter, into](const std::string& text) {
      SamplingOptions options = Merged({}, *into);
      const absl::Status status =
          std::visit([&](auto member) { return Parse(text, options.*member); }, parameter.member);
      if (status.ok()) SetField(parameter, options, *into);
      return status;
    };
    flags.AddParsed(parameter.name, parameter.value, HelpOf(parameter), parse);
  }
}

}  // namespace sluice
