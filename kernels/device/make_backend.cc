#include "kernels/device/make_backend.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/mutex.h"
#include "kernels/check.h"
#include "kernels/device/illegal_instruction.h"
#include "kernels/device/self_check.h"
#include "kernels/gpu/gpu_check.h"
#include "kernels/gpu/gpu_devices.h"

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

// The last of `ways` that passes its check; `warn` hears why others don't.
template <class Way>
absl::StatusOr<Way> ChooseChecked(absl::Span<const Way> ways, const std::string& what,
                                  absl::FunctionRef<std::string(Way)> name,
                                  absl::FunctionRef<absl::Status(Way)> check,
                                  absl::FunctionRef<void(const std::string& reason)> warn) {
  SLUICE_CHECK(!ways.empty());
  absl::Status status;
  for (auto way = ways.rbegin(); way != ways.rend(); ++way) {
    status = check(*way);
    if (status.ok()) return *way;
    warn(absl::StrCat(what, " ", name(*way), " fail their self-check: ", status.message()));
  }
  return absl::Status(status.code(), absl::StrCat("this machine computes nothing as it should: ",
                                                  status.message()));
}

absl::StatusOr<std::unique_ptr<Backend>> MakeCheckedGpuBackend(
    const DeviceOptions& options, absl::FunctionRef<void(const std::string& reason)> warn) {
  const int index = options.device.index.value_or(0);
  const auto known = ProductsUpTo(QueryGpus().gpus[index], options.gpu_products);
  if (!known.ok()) return known.status();
  static auto& findings = *new Findings<std::pair<int, GpuProducts>>;
  const auto chosen = ChooseProducts(
      *known,
      [&](GpuProducts products) {
        // Minutes there; a test is this check (kernels_cuda_cuda_gpu_test).
        if (GpusAreEmulated()) return absl::OkStatus();
        return findings.Of({index, products}, [&] {
          return options.check_gpu != nullptr ? options.check_gpu(index, products)
                                              : CheckGpuProducts(index, products);
        });
      },
      warn);
  if (!chosen.ok()) return chosen.status();
  return MakeGpuBackend(index, {.products = *chosen,
                                .on_lost = options.on_gpu_lost,
                                .on_unrecorded = options.on_gpu_unrecorded});
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
  return ChooseChecked<InstructionSet>(
      sets, "instructions", [](InstructionSet set) { return std::string(Name(set)); }, check, warn);
}

absl::StatusOr<GpuProducts> ChooseProducts(
    absl::Span<const GpuProducts> known, absl::FunctionRef<absl::Status(GpuProducts)> check,
    absl::FunctionRef<void(const std::string& reason)> warn) {
  return ChooseChecked<GpuProducts>(
      known, "a GPU's products by", [](GpuProducts products) { return Name(products); }, check,
      warn);
}

absl::Status CheckDevice(const DeviceId& device) {
  if (device.kind == DeviceKind::kCpu) return absl::OkStatus();
  return CheckGpu(QueryGpus(), device.index.value_or(0));
}

absl::Status CheckGpuProducts(int index, GpuProducts products) {
  const DriverFacts facts = QueryGpus();
  if (absl::Status usable = CheckGpu(facts, index); !usable.ok()) return usable;
  const GpuFacts& gpu = facts.gpus[index];
  if (const auto known = ProductsUpTo(gpu, products); !known.ok()) return known.status();
  const auto backend = MakeGpuBackend(index, {.products = products});
  if (!backend.ok()) return backend.status();
  absl::Status status = SelfCheck(**backend);
  return status.ok() ? CheckBatchSizes(**backend, BatchSizesFor(gpu.num_multiprocessors)) : status;
}

absl::StatusOr<std::unique_ptr<Backend>> MakeBackend(
    const DeviceOptions& options, absl::FunctionRef<void(const std::string& reason)> warn) {
  if (absl::Status usable = CheckDevice(options.device); !usable.ok()) return usable;
  switch (options.device.kind) {
    case DeviceKind::kCuda:
      return MakeCheckedGpuBackend(options, warn);
    case DeviceKind::kCpu:
      break;
  }
  if (options.gpu_products.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(
        Name(*options.gpu_products),
        " multiplies on GPUs alone, and cpu was to compute; it goes with --device cuda"));
  }
  const int threads = options.cpu.num_threads;
  if (threads < 0 || threads > kMostThreads) {
    return absl::InvalidArgumentError(absl::StrCat(threads, " threads; accepted: 1 to ",
                                                   kMostThreads, ", or 0 for one per core"));
  }
  return MakeCheckedCpuBackend(options.cpu, warn);
}

}  // namespace sluice
