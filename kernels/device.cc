#include "kernels/device.h"

#include <algorithm>
#include <map>

#include "absl/base/thread_annotations.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/mutex.h"
#include "kernels/check.h"
#include "kernels/gpu/gpu_check.h"
#include "kernels/gpu/gpu_devices.h"
#include "kernels/illegal_instruction.h"
#include "kernels/self_check.h"

namespace sluice {
namespace {

// Findings by what was looked at, each made once.
template <class Key>
class Findings {
 public:
  absl::Status Of(const Key& key, absl::FunctionRef<absl::Status()> find) {
    absl::MutexLock lock(&mutex_);
    const auto known = by_key_.find(key);
    if (known != by_key_.end()) return known->second;
    return by_key_[key] = find();
  }

 private:
  absl::Mutex mutex_;
  std::map<Key, absl::Status> by_key_ ABSL_GUARDED_BY(mutex_);
};

// What the self-check says of products with `set`.
absl::Status CheckedOnce(InstructionSet set) {
  static auto& findings = *new Findings<InstructionSet>;
  return findings.Of(set, [&] {
    // One thread, so that whatever happens, happens here.
    const auto backend = MakeCpuBackend({.num_threads = 1, .instructions = set});
    return CatchIllegalInstruction([&] { return SelfCheck(*backend); });
  });
}

absl::StatusOr<std::unique_ptr<Backend>> MakeCheckedGpuBackend(int index) {
  auto backend = MakeGpuBackend(index);
  if (!backend.ok()) return backend.status();
  static auto& findings = *new Findings<int>;
  const absl::Status checked = findings.Of(index, [&] { return SelfCheck(**backend); });
  if (!checked.ok()) return checked;
  return backend;
}

absl::StatusOr<std::unique_ptr<Backend>> MakeCheckedCpuBackend(
    const CpuBackendOptions& options, absl::FunctionRef<void(const std::string& reason)> warn) {
  const std::vector<InstructionSet>& supported = SupportedInstructionSets();
  const auto wanted = std::find(supported.begin(), supported.end(),
                                options.instructions.value_or(supported.back()));
  SLUICE_CHECK(wanted != supported.end());
  const std::vector<InstructionSet> sets(supported.begin(), wanted + 1);
  const auto chosen = ChooseInstructions(sets, CheckedOnce, warn);
  if (!chosen.ok()) return chosen.status();
  CpuBackendOptions cpu = options;
  cpu.instructions = *chosen;
  return MakeCpuBackend(cpu);
}

}  // namespace

std::string Name(const DeviceId& device) {
  if (device.kind == DeviceKind::kCpu) return "cpu";
  return device.index.has_value() ? absl::StrCat("cuda:", *device.index) : "cuda";
}

absl::StatusOr<DeviceId> ParseDevice(const std::string& text) {
  if (text == "cpu") return DeviceId{};
  const char* const accepted = BuiltForGpus() ? "cpu, cuda or cuda:INDEX" : "cpu";
  DeviceId gpu{.kind = DeviceKind::kCuda};
  absl::string_view rest = text;
  bool names_gpu = absl::ConsumePrefix(&rest, "cuda");
  if (names_gpu && !rest.empty()) {
    names_gpu = absl::ConsumePrefix(&rest, ":") && absl::SimpleAtoi(rest, &gpu.index.emplace()) &&
                *gpu.index >= 0;
  }
  if (!names_gpu) {
    return absl::InvalidArgumentError(absl::StrCat("\"", text, "\"; accepted: ", accepted));
  }
  if (BuiltForGpus()) return gpu;
  return absl::InvalidArgumentError(
      absl::StrCat(text, " needs a build with CUDA; accepted by this one: ", accepted));
}

DeviceId DeviceOfProcess(const DeviceId& device, int number, int num_gpus) {
  if (device.kind == DeviceKind::kCpu || device.index.has_value() || num_gpus == 0) return device;
  return {.kind = device.kind, .index = number % num_gpus};
}

int ProcessesOnDevice(const DeviceId& device, int count, int num_gpus) {
  const bool takes_turns = !device.index.has_value() && num_gpus > 0;
  return takes_turns ? (count + num_gpus - 1) / num_gpus : count;
}

int NumGpus() { return static_cast<int>(QueryGpus().gpus.size()); }

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

absl::Status CheckDevice(const DeviceId& device) {
  if (device.kind == DeviceKind::kCpu) return absl::OkStatus();
  return CheckGpu(QueryGpus(), device.index.value_or(0));
}

absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(
    const DeviceOptions& options, absl::FunctionRef<void(const std::string& reason)> warn) {
  if (absl::Status usable = CheckDevice(options.device); !usable.ok()) return usable;
  switch (options.device.kind) {
    case DeviceKind::kCuda:
      return MakeCheckedGpuBackend(options.device.index.value_or(0));
    case DeviceKind::kCpu:
      break;
  }
  return MakeCheckedCpuBackend(options.cpu, warn);
}

}  // namespace sluice
