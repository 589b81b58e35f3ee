// Loops of the instructions with which x86 processors multiply narrow numbers fastest, on registers
// alone. Chosen by what the processor has: AMX, else AVX-512.
#pragma once

#include <cstdint>
#include <string_view>

namespace sluice::testing {

struct PeakLoop {
  std::string_view instruction;  // empty: none
  // Runs the instruction `rounds` times on each of several independent sums; returns the operations
  // done, a multiply-add counted as two. `*result` keeps the compiler from leaving the work out.
  double (*run)(int64_t rounds, float* result) = nullptr;
};

// Products of bfloat16 numbers, summed in F32.
PeakLoop X86BF16Loop();
// Products of signed and unsigned bytes, summed in 32 bits.
PeakLoop X86Int8Loop();

}  // namespace sluice::testing
