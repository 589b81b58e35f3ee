// How wgmma finds a matrix in shared memory: the 64-bit matrix descriptor, as the PTX ISA documents
// it ("Asynchronous Warpgroup Level Matrix Shared Memory Layout"), for the one layout used here:
// rows of 64 BF16 numbers, 128 bytes, one after another, the pieces of 16 bytes swizzled in every
// eight rows (SwizzledPiece of fragment.h). Pure functions, shared by kernels and the host's plain
// loops.
#pragma once

#include <cstdint>

#include "kernels/cuda/fragment.h"

namespace sluice::cuda {

inline constexpr int kDescribedRowBytes = 128;
// Eight rows, and where such a matrix may begin: the swizzle is of addresses.
inline constexpr int kSwizzleBytes = 8 * kDescribedRowBytes;

// Bits 0 to 13: the address, in 16 bytes; 16 to 29: the leading dimension's offset, which swizzled
// rows don't have; 32 to 45: from eight rows to the next, in 16 bytes; 62 and 63: 128-byte swizzle.
// `address`: in shared memory, of an element whose column is a multiple of 16 in a matrix that
// begins at a multiple of kSwizzleBytes.
constexpr uint64_t DescriptorOf(uint32_t address) {
  return uint64_t{(address & 0x3ffff) >> 4} | uint64_t{1} << 16 |
         uint64_t{kSwizzleBytes >> 4} << 32 | uint64_t{1} << 62;
}
// The same matrix from 16 * sixteens columns further on.
constexpr uint64_t ColumnsFrom(uint64_t descriptor, int sixteens) {
  return descriptor + static_cast<uint64_t>(sixteens) * (32 >> 4);
}

// ---- What the instruction makes of it ----

constexpr bool IsSwizzled(uint64_t descriptor) { return descriptor >> 62 == 1; }
// Where element (row, col) of 16-bit elements lies.
constexpr uint32_t DescribedAddress(uint64_t descriptor, int row, int col) {
  const auto begin = static_cast<uint32_t>(descriptor & 0x3fff) << 4;
  const auto stride = static_cast<uint32_t>(descriptor >> 32 & 0x3fff) << 4;
  const uint32_t plain = begin + static_cast<uint32_t>(row / 8) * stride +
                         static_cast<uint32_t>(row % 8 * kDescribedRowBytes + col * 2);
  // The number of the row among eight moves the number of the piece.
  return plain ^ (plain >> 7 & 7) << 4;
}

static_assert(DescribedAddress(ColumnsFrom(DescriptorOf(2048), 1), 11, 3) ==
              2048 + 11 * 128 + SwizzledPiece(11, 2) * 16 + 6);

}  // namespace sluice::cuda
