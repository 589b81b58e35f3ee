#include "simt.h"

// After simt.h.
#include "kernels/cuda/kernels/elements.h"
#include "kernels/cuda/kernels/launchers.h"
#include "kernels/cuda/token_image.h"
#include "kernels/fp8.h"

namespace sluice::cuda::SIMT_NAMESPACE {
namespace {

constexpr int kThreads = 256;
constexpr int kPieceBytes = 16;

// A block rounds a slice of a row: it looks for the largest input, then writes pieces of the
// operand. kInputs: those of a piece, 8 that become BF16 numbers or 16 that become codes.
template <int kInputs>
class SliceRounding {
 public:
  SIMT_DEVICE explicit SliceRounding(const Fp8ActivationsTask& task)
      : task_(task),
        row_(Block() / task.num_slices),
        slice_(static_cast<int>(Block() % task.num_slices)),
        runs_(task.runs.num_runs / task.num_slices),
        pieces_per_run_(static_cast<int>(task.runs.units()) * 8) {}

  SIMT_DEVICE void Run() const {
    if (row_ >= task_.x.rows) return FillUp();
    const uint32_t bits = uint32_t{Fp8ScaleFor(LargestBits())};
    const float scale = FloatFromBits(bits << 16);
    // Codes of what has no scale are none of a number, either way.
    const float inverse = IsNaN(scale) ? scale : Fp8Inverse(static_cast<uint16_t>(bits));
    if (kWritesCodes && Thread() == 0) task_.scales[row_ * task_.num_slices + slice_] = scale;
    for (int piece = Thread(); piece < runs_ * pieces_per_run_; piece += kThreads) {
      float inputs[kInputs];
      Read(piece, inputs);
      Words words;
      SIMT_UNROLL
      for (int i = 0; i < 4; ++i) {
        words.word[i] = RoundedWord(inputs + i * kInputs / 4, scale, inverse);
      }
      Write(piece, words);
    }
  }

 private:
  static constexpr bool kWritesCodes = kInputs == kPieceBytes;
  static constexpr int kInputsPerElement = kWritesCodes ? 2 : 1;

  SIMT_DEVICE uint32_t LargestBits() const {
    uint32_t largest = 0;
    for (int piece = Thread(); piece < runs_ * pieces_per_run_; piece += kThreads) {
      float inputs[kInputs];
      Read(piece, inputs);
      SIMT_UNROLL
      for (const float input : inputs) largest = Larger()(largest, BitsOf(input) & 0x7fffffffu);
    }
    return JoinThreads(largest, Larger(), SharedMemory<uint32_t>());
  }

  // Inputs of a piece of the slice; zeroes behind the end of its run.
  SIMT_DEVICE void Read(int piece, float (&inputs)[kInputs]) const {
    const int64_t depth = task_.runs.depth * kInputsPerElement;  // of a run, in inputs
    const int64_t in_run = int64_t{piece % pieces_per_run_} * kInputs;
    const int64_t begin = (int64_t{slice_} * runs_ + piece / pieces_per_run_) * depth + in_run;
    const auto* const halves = RowOf<uint16_t>(task_.x, row_) + begin;
    if (task_.x.dtype == DType::kBF16 && in_run + kInputs <= depth &&
        reinterpret_cast<uintptr_t>(halves) % sizeof(Words) == 0) {
      SIMT_UNROLL
      for (int i = 0; i < kInputs / 8; ++i) {
        const Words words = *reinterpret_cast<const Words*>(halves + i * 8);
        SIMT_UNROLL
        for (int j = 0; j < 8; ++j) {
          inputs[i * 8 + j] = Widened(static_cast<uint16_t>(words.word[j / 2] >> (j % 2 * 16)));
        }
      }
      return;
    }
    SIMT_UNROLL
    for (int i = 0; i < kInputs; ++i) {
      inputs[i] = in_run + i < depth ? LoadElement(task_.x, row_, begin + i) : 0.0f;
    }
  }

  // Four codes, or two BF16 numbers.
  SIMT_DEVICE static uint32_t RoundedWord(const float* inputs, float scale, float inverse) {
    uint32_t codes = 0;
    SIMT_UNROLL
    for (int i = 0; i < kInputs / 4; ++i) {
      codes |= uint32_t{Fp8FromFloat(inputs[i] * inverse)} << (i * 8);
    }
    if constexpr (kWritesCodes) return codes;
    return PackBFloat16(FloatFromFp8(static_cast<uint8_t>(codes & 0xff)) * scale,
                        FloatFromFp8(static_cast<uint8_t>(codes >> 8)) * scale);
  }

  SIMT_DEVICE void Write(int piece, const Words& words) const {
    const int64_t in_row = int64_t{slice_} * runs_ * pieces_per_run_ + piece;
    const int64_t per_row = int64_t{task_.runs.num_runs} * pieces_per_run_;
    const int64_t at = task_.as_image ? TokenPiece(row_, in_row, per_row / 8)
                                      : (row_ * per_row + in_row) * kPieceBytes;
    *reinterpret_cast<Words*>(task_.out + at) = words;
  }
  // Behind the last row of an image.
  SIMT_DEVICE void FillUp() const {
    for (int piece = Thread(); piece < runs_ * pieces_per_run_; piece += kThreads) {
      Write(piece, Words{});
    }
  }

  const Fp8ActivationsTask& task_;
  const int64_t row_;
  const int slice_;
  const int runs_;  // of a slice
  const int pieces_per_run_;
};

SIMT_KERNEL(kThreads, 4) RoundToFp8(SIMT_TASK Fp8ActivationsTask task) {
  WaitForKernelsBefore();
  if (task.scales != nullptr) {
    SliceRounding<16>(task).Run();
  } else {
    SliceRounding<8>(task).Run();
  }
}

}  // namespace

void Fp8Activations(Stream stream, const Fp8ActivationsTask& task) {
  const int64_t rows = task.as_image ? TokenBlocks(task.x.rows) * kImageTokens : task.x.rows;
  Launch<RoundToFp8>(stream,
                     {.blocks = rows * task.num_slices,
                      .threads = kThreads,
                      .shared_bytes = kThreads / kWarpSize * sizeof(uint32_t)},
                     task);
}

}  // namespace sluice::cuda::SIMT_NAMESPACE
