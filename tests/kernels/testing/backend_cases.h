// The backends that the tests of kernels/backend.h run on.
#pragma once

#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/backend.h"
#include "kernels/cpu/instruction_set.h"
#include "kernels/gpu/gpu_facts.h"

namespace sluice::testing {

// One backend in one configuration, such as the CPU with AVX2.
struct BackendCase {
  std::string name;
  int64_t simd_target = 0;  // a HWY_* target
  InstructionSet instructions = InstructionSet::kPortable;
  bool is_async = false;  // tests/kernels/testing/async_backend.h around it
  bool is_gpu = false;    // not the CPU: the GPUs' kernels, on the host (tests/gpu/host)
  GpuProducts products = GpuProducts::kPortable;  // of such a one
  bool is_device = false;  // the test device (test_backend.h), instead of all these
};

std::ostream& operator<<(std::ostream& stream, const BackendCase& backend_case);

// The CPU backend once per SIMD target that was compiled in and that this machine can run, with
// portable products, and once per other instruction set.
std::vector<BackendCase> BackendCases();

// Those, and, but in an emulator, an asynchronous one.
std::vector<BackendCase> CpuCases();

// What the tests of the contract run on: those, and the kernels of GPUs on the host; or the test device
// alone (test_backend.h), where there is one.
std::vector<BackendCase> ContractCases();

// What those of products run on: all kinds of instructions that multiply.
std::vector<BackendCase> ProductCases();

// A test of the contract, run on every backend.
class BackendTest : public ::testing::TestWithParam<BackendCase> {
 protected:
  void SetUp() override;
  void TearDown() override;

  // A new backend of the case under test. A GPU has as many multiprocessors as the CPU has threads.
  std::unique_ptr<Backend> NewBackend(int num_threads = 2) const;
  // How far attention may be from the reference where numbers are of size one: GPUs take queries
  // and weights as two BF16 numbers each.
  double AttentionTolerance() const {
    return GetParam().is_gpu || GetParam().is_device ? 2e-4 : 4e-6;
  }
  // The one that most tests need.
  Backend& backend() { return *backend_; }
  Backend& reference() { return *reference_; }

 private:
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Backend> reference_;
};

// Has every operation from now on computed by the best of these SIMD targets; 0: of all that the
// machine has. Not while any thread computes.
void UseSimdTargets(int64_t targets);

std::string CaseName(const ::testing::TestParamInfo<BackendCase>& info);

}  // namespace sluice::testing

#define SLUICE_FOR_ALL_BACKENDS(suite)                                              \
  INSTANTIATE_TEST_SUITE_P(Backends, suite,                                         \
                           ::testing::ValuesIn(::sluice::testing::ContractCases()), \
                           ::sluice::testing::CaseName)
#define SLUICE_FOR_ALL_PRODUCTS(suite)                                             \
  INSTANTIATE_TEST_SUITE_P(Backends, suite,                                        \
                           ::testing::ValuesIn(::sluice::testing::ProductCases()), \
                           ::sluice::testing::CaseName)
#define SLUICE_FOR_CPU_BACKENDS(suite)                                                          \
  INSTANTIATE_TEST_SUITE_P(Backends, suite, ::testing::ValuesIn(::sluice::testing::CpuCases()), \
                           ::sluice::testing::CaseName)
