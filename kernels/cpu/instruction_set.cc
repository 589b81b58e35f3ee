#include "kernels/cpu/instruction_set.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "absl/algorithm/container.h"
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

// Tiles are in the processor, and the system lets this process, all its threads, use them.
bool HasAmxBf16() {
#if defined(__x86_64__) && defined(__linux__)
  constexpr unsigned kAmxBf16 = 1u << 22, kAmxTile = 1u << 24;  // of leaf 7, edx
  constexpr int kRequestPermission = 0x1023, kTileData = 18;    // arch_prctl, since Linux 5.16
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  if ((edx & kAmxBf16) == 0 || (edx & kAmxTile) == 0) return false;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
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
    case InstructionSet::kAmxBf16:
      return "amx_bf16";
  }
  SLUICE_CHECK(false);
  return "";
}

const std::vector<InstructionSet>& SupportedInstructionSets() {
  static const std::vector<InstructionSet>& supported = *[] {
    auto* sets = new std::vector<InstructionSet>{InstructionSet::kPortable};
    if (!HasAvx512Bf16()) return sets;
    sets->push_back(InstructionSet::kAvx512Bf16);
    if (HasAmxBf16()) sets->push_back(InstructionSet::kAmxBf16);
    return sets;
  }();
  return supported;
}

bool Supports(InstructionSet set) { return absl::c_linear_search(SupportedInstructionSets(), set); }

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
