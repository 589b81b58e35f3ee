#include "kernels/sampling_options/sampling_reference.h"

#include <type_traits>

#include "absl/strings/str_cat.h"
#include "kernels/sampling_options/sampling_check.h"

namespace sluice {

std::string NeutralText(const SamplingParameter& parameter) {
  static const SamplingOptions& neutral = *new SamplingOptions();
  return std::visit(
      [](auto member) -> std::string {
        using Value = std::decay_t<decltype(neutral.*member)>;
        if constexpr (std::is_arithmetic_v<Value>) {
          return absl::StrCat(neutral.*member);
        } else {
          return "empty";
        }
      },
      parameter.member);
}

std::string SamplingReference() {
  std::string text =
      "| parameter | what it does | accepted | neutral | source | generation_config.json |\n"
      "|---|---|---|---|---|---|\n";
  for (const SamplingParameter& parameter : kSamplingParameters) {
    absl::StrAppend(&text, "| `", parameter.name, "` | ", parameter.help, " | ",
                    AcceptedText(parameter), " | ", NeutralText(parameter), " | ", parameter.source,
                    " | ");
    if (*parameter.model_key != '\0') absl::StrAppend(&text, "`", parameter.model_key, "` ");
    absl::StrAppend(&text, "|\n");
  }
  return text;
}

}  // namespace sluice
