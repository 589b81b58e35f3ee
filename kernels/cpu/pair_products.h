// How kernels of InstructionSet::kAvx512Bf16 multiply pairs of bfloat16 numbers. VDPBF16PS adds the
// product of the odd inputs to a sum, then that of the even ones, each fused and rounded to nearest
// even, with subnormal numbers read and written as zero. Two multiply-adds of floats do the same,
// and have the same bits; which is faster depends on the processor (docs/decisions/030).
#pragma once

namespace sluice {

enum class PairProducts {
  kInstruction,  // VDPBF16PS
  kFloats,       // two fused multiply-adds of floats
};

// REQUIRES, of both: the processor supports InstructionSet::kAvx512Bf16.

// Whether floats have this processor's bits of the instruction, for finite numbers of all kinds.
bool FloatsHaveBitsOfPairs();

// What this processor multiplies more with, measured at the first call: kFloats
// only if FloatsHaveBitsOfPairs().
PairProducts FastestPairProducts();

}  // namespace sluice
