#include "kernels/device.h"

#include <algorithm>
#include <map>

#include "absl/base/thread_annotations.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/mutex.h"
#include "kernels/check.h"
#include "kernels/illegal_instruction.h"
#include "kernels/self_check.h"

namespace sluice {
namespace {

// What the self-check says of products with `set`, found out once.
absl::Status CheckedOnce(InstructionSet set) {
  struct Results {
    absl::Mutex mutex;
    std::map<InstructionSet, absl::Status> by_set ABSL_GUARDED_BY(mutex);
  };
  static Results& results = *new Results;
  absl::MutexLock lock(&results.mutex);
  if (const auto known = results.by_set.find(set); known != results.by_set.end()) {
    return known->second;
  }
  // One thread, so that whatever happens, happens here.
  const auto backend = MakeCpuBackend({.num_threads = 1, .instructions = set});
  absl::Status status = CatchIllegalInstruction([&] { return SelfCheck(*backend); });
  results.by_set[set] = status;
  return status;
}

}  // namespace

std::string_view Name(DeviceKind) { return "cpu"; }

absl::StatusOr<DeviceKind> ParseDevice(const std::string& text) {
  if (text == Name(DeviceKind::kCpu)) return DeviceKind::kCpu;
  int index = 0;
  absl::string_view rest = text;
  const bool names_gpu = absl::ConsumePrefix(&rest, "cuda") &&
                         (rest.empty() || (absl::ConsumePrefix(&rest, ":") &&
                                           absl::SimpleAtoi(rest, &index) && index >= 0));
  return absl::InvalidArgumentError(
      names_gpu ? absl::StrCat(text, " needs a build with CUDA; accepted by this one: cpu")
                : absl::StrCat("\"", text, "\"; accepted: cpu"));
}

absl::StatusOr<InstructionSet> ChooseInstructions(
    absl::Span<const InstructionSet> sets, absl::FunctionRef<absl::Status(InstructionSet)> check,
    absl::FunctionRef<void(const std::string& reason)> warn) {
  SLUICE_CHECK(!sets.empty());
  absl::Status status;
  for (auto set = sets.rbegin(); set != sets.rend(); ++set) {
    status = check(*set);
    if (status.ok()) return *set;
    warn(absl::StrCat("instructions ", std::string(Name(*set)),
                      " fail their self-check: ", status.message()));
  }
  return absl::Status(status.code(), absl::StrCat("this machine computes nothing as it should: ",
                                                  status.message()));
}

absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(
    const DeviceOptions& options, absl::FunctionRef<void(const std::string& reason)> warn) {
  SLUICE_CHECK(options.kind == DeviceKind::kCpu);
  const std::vector<InstructionSet>& supported = SupportedInstructionSets();
  const auto wanted = std::find(supported.begin(), supported.end(),
                                options.cpu.instructions.value_or(supported.back()));
  SLUICE_CHECK(wanted != supported.end());
  const std::vector<InstructionSet> sets(supported.begin(), wanted + 1);
  const auto chosen = ChooseInstructions(sets, CheckedOnce, warn);
  if (!chosen.ok()) return chosen.status();
  CpuBackendOptions cpu = options.cpu;
  cpu.instructions = *chosen;
  return MakeCpuBackend(cpu);
}

}  // namespace sluice
