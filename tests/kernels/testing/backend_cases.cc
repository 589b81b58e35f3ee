#include "tests/kernels/testing/backend_cases.h"

#include <utility>

#include "hwy/highway.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/reference/reference_backend.h"
#include "tests/kernels/testing/async_backend.h"
#include "tests/kernels/testing/emulator.h"
#include "tests/kernels/testing/gpu_on_host.h"
#include "tests/kernels/testing/test_backend.h"

namespace sluice::testing {
void UseSimdTargets(int64_t targets) {
  hwy::SetSupportedTargetsForTest(targets);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

std::ostream& operator<<(std::ostream& stream, const BackendCase& backend_case) {
  return stream << backend_case.name;
}

std::vector<BackendCase> BackendCases() {
  std::vector<BackendCase> cases;
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    cases.push_back({std::string("cpu_") + hwy::TargetName(target), target});
  }
  for (const InstructionSet set : SupportedInstructionSets()) {
    if (set == InstructionSet::kPortable) continue;
    cases.push_back({"cpu_" + std::string(Name(set)), hwy::SupportedTargets(), set});
  }
  return cases;
}

std::vector<BackendCase> CpuCases() {
  std::vector<BackendCase> cases = BackendCases();
  if (IsEmulated()) return cases;  // what the other proves does not depend on the processor
  BackendCase async = cases.back();
  async.name += "_async";
  async.is_async = true;
  cases.push_back(async);
  return cases;
}

std::vector<BackendCase> ContractCases() {
  if (TestDevice().has_value()) {
    return {{.name = "device", .simd_target = hwy::SupportedTargets(), .is_device = true}};
  }
  std::vector<BackendCase> cases = CpuCases();
  if (HasGpuOnHost()) cases.push_back({.name = "cuda_host", .is_gpu = true});
  return cases;
}

std::vector<BackendCase> ProductCases() {
  std::vector<BackendCase> cases = ContractCases();
  if (cases.back().is_gpu) {
    cases.push_back({.name = "cuda_host_hopper", .is_gpu = true, .products = GpuProducts::kHopper});
    cases.push_back(
        {.name = "cuda_host_pipelined", .is_gpu = true, .products = GpuProducts::kPipelined});
    cases.push_back({.name = "cuda_host_fp8", .is_gpu = true, .products = GpuProducts::kFp8});
  }
  return cases;
}

std::string CaseName(const ::testing::TestParamInfo<BackendCase>& info) { return info.param.name; }

void BackendTest::SetUp() {
  // Backends have threads. An emulated program can't start itself again.
  GTEST_FLAG_SET(death_test_style, IsEmulated() ? "fast" : "threadsafe");
  UseSimdTargets(GetParam().simd_target);
  backend_ = NewBackend();
  reference_ = MakeReferenceBackend();
}

void BackendTest::TearDown() { UseSimdTargets(0); }

std::unique_ptr<Backend> BackendTest::NewBackend(int num_threads) const {
  if (GetParam().is_device) return NewTestBackend();
  if (GetParam().is_gpu) {
    return NewGpuOnHost({.num_multiprocessors = num_threads, .products = GetParam().products});
  }
  auto backend =
      MakeCpuBackend({.num_threads = num_threads, .instructions = GetParam().instructions});
  return GetParam().is_async ? MakeAsyncBackend(std::move(backend)) : std::move(backend);
}

}  // namespace sluice::testing
