// Which elements of a tile each lane of a warp holds for the matrix instruction m16n8k16, as the
// PTX ISA documents it ("Matrix Fragments for mma.m16n8k16 with floating point type"): D[16, 8] =
// A[16, 16] B[16, 8] + C. Pure functions, shared by kernels, packing and the host's plain loops.
#pragma once

namespace sluice::cuda {

inline constexpr int kWarpSize = 32;

struct TileElement {
  int row;
  int col;

  friend constexpr bool operator==(const TileElement&, const TileElement&) = default;
};

// Elements of A [16, 16]: i in [0, 8). Registers hold pairs: elements 2r and 2r + 1 are the low and
// the high half of register r.
constexpr TileElement ElementOfA(int lane, int i) {
  return {lane / 4 + (i / 2 % 2 == 1 ? 8 : 0), lane % 4 * 2 + i % 2 + (i >= 4 ? 8 : 0)};
}

// Elements of B [16, 8] as (k, n): i in [0, 4).
constexpr TileElement ElementOfB(int lane, int i) {
  return {lane % 4 * 2 + i % 2 + (i >= 2 ? 8 : 0), lane / 4};
}

// Elements of C and D [16, 8]: i in [0, 4).
constexpr TileElement ElementOfC(int lane, int i) {
  return {lane / 4 + (i >= 2 ? 8 : 0), lane % 4 * 2 + i % 2};
}

// What lane `lane` gets of each matrix [8, 8] of 16-bit elements that ldmatrix loads: the elements
// (row, col) and (row, col + 1); of the transposed ones, (col, row) and (col + 1, row).
constexpr TileElement ElementOfLoadedMatrix(int lane) { return {lane / 4, lane % 4 * 2}; }

// Rows of 128 bytes in shared memory as 8 pieces of 16, where piece `piece` of row `row` lies:
// eight lanes that read one column of pieces meet all 32 banks.
constexpr int SwizzledPiece(int row, int piece) { return piece ^ (row % 8); }

}  // namespace sluice::cuda
