#include "kernels/cpu/instruction_set.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/check.h"

namespace sluice {
namespace {

bool HasAvx512Bf16() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512bf16");
#else
  return false;
#endif
}

}  // namespace

std::string_view Name(InstructionSet set) {
  switch (set) {
    case InstructionSet::kPortable:
      return "portable";
    case InstructionSet::kAvx512Bf16:
      return "avx512_bf16";
  }
  SLUICE_CHECK(false);
  return "";
}

const std::vector<InstructionSet>& SupportedInstructionSets() {
  static const std::vector<InstructionSet>& supported = *[] {
    auto* sets = new std::vector<InstructionSet>{InstructionSet::kPortable};
    if (HasAvx512Bf16()) sets->push_back(InstructionSet::kAvx512Bf16);
    return sets;
  }();
  return supported;
}

absl::StatusOr<InstructionSet> ParseInstructionSet(const std::string& text) {
  const std::vector<InstructionSet>& supported = SupportedInstructionSets();
  if (text == "auto") return supported.back();
  for (const InstructionSet set : supported) {
    if (text == Name(set)) return set;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "\"", text, "\" is no instruction set of this machine; accepted: auto, ",
      absl::StrJoin(supported, ", ",
                    [](std::string* out, InstructionSet set) { out->append(Name(set)); })));
}

}  // namespace sluice
