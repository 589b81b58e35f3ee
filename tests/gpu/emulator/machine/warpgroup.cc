// wgmma: multiplies that go on by themselves. Each warp has 16 of a warpgroup's 64 rows, and is
// carried out by itself.
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tests/gpu/emulator/machine/numbers.h"
#include "tests/gpu/emulator/machine/program.h"
#include "tests/gpu/emulator/machine/tensor_sum.h"
#include "tests/gpu/emulator/machine/thread.h"

namespace sluice::cuda::emulator {
namespace {

// Of a multiply, B has K numbers of so many bytes in a row: 32 bytes, whatever their type.
constexpr size_t kRowBytes = 32;
constexpr size_t kPieceBytes = 16;

// The matrix-descriptor, by the PTX ISA's "Matrix Descriptor Format": all in units of 16 bytes.
struct Descriptor {
  explicit Descriptor(uint64_t bits)
      : start((bits & 0x3fff) << 4),
        leading((bits >> 16 & 0x3fff) << 4),
        stride((bits >> 32 & 0x3fff) << 4),
        base_offset(bits >> 49 & 7),
        swizzle(bits >> 62 & 3) {}
  uint64_t start, leading, stride, base_offset, swizzle;
};

constexpr uint64_t kNotSwizzled = 0, kSwizzledBy128 = 1;

// Where 16 bytes of a column of B are, K-major.
uint64_t PieceAddress(const Descriptor& b, uint64_t column, uint64_t piece) {
  if (b.swizzle == kNotSwizzled) {
    return b.start + column / 8 * b.stride + piece * b.leading + column % 8 * kPieceBytes;
  }
  const uint64_t flat = b.start + column / 8 * b.stride + column % 8 * 128 + piece * kPieceBytes;
  return flat ^ ((flat >> 7 & 7) << 4);
}

int NumColumns(const Step& step) { return step.size; }
int NumSums(const Step& step) { return step.size / 2; }  // of a lane

// B, column after column; a fault is that of the first lane.
std::vector<std::byte> ReadB(Warp& warp, const AsyncMultiply& multiply) {
  const Descriptor b(multiply.b);
  const int columns = NumColumns(*multiply.step);
  std::vector<std::byte> bytes(static_cast<size_t>(columns) * kRowBytes);
  Thread& first = *warp.lanes[0];
  if (b.swizzle > kSwizzledBy128 || b.base_offset != 0) {
    first.Fault("a layout of B that is not carried out");
    return bytes;
  }
  for (int column = 0; column < columns; ++column) {
    for (size_t piece = 0; piece < kRowBytes / kPieceBytes; ++piece) {
      const std::string wrong = warp.block->shared->ReadByEngine(
          PieceAddress(b, column, piece), kPieceBytes, first.accessor(),
          &bytes[static_cast<size_t>(column) * kRowBytes + piece * kPieceBytes]);
      if (!wrong.empty()) {
        first.Fault(wrong);
        return bytes;
      }
    }
  }
  return bytes;
}

// What the registers of a multiply held must be there before it: written before the last fence of
// multiplies, or by multiplies.
void CheckFence(Warp& warp, const Step& step) {
  for (Thread* const lane : warp.lanes) {
    for (int i = 0; i < NumSums(step) + 4; ++i) {
      if (lane->written_at[step.r[i]] <= lane->multiply_fence) continue;
      return lane->Fault("a register of a multiply was written and no wgmma.fence is behind that");
    }
  }
}

// All four warps of a warpgroup make the same multiplies in the same order.
void CheckHistory(Warp& warp, const Step& step) {
  warp.history.push_back(&step);
  const size_t made = warp.history.size();
  const int first = warp.index / kWarpgroupWarps * kWarpgroupWarps;
  for (int i = first; i < first + kWarpgroupWarps; ++i) {
    if (i >= static_cast<int>(warp.block->warps.size())) {
      return warp.lanes[0]->Fault("a warpgroup has not four warps");
    }
    const auto& other = warp.block->warps[i]->history;
    if (other.size() >= made && other[made - 1] != &step) {
      return warp.lanes[0]->Fault("warps of a warpgroup make different multiplies");
    }
  }
}

void Hold(Warp& warp, const Step& step, int by) {
  for (int i = 0; i < NumSums(step) + 4; ++i) {
    warp.held[step.r[i]] = static_cast<uint16_t>(warp.held[step.r[i]] + by);
  }
}

void Begin(Warp& warp, const Step& step) {
  CheckHistory(warp, step);
  CheckFence(warp, step);
  AsyncMultiply multiply;
  multiply.step = &step;
  const int sums = NumSums(step);
  for (int i = 0; i < kWarpThreads; ++i) {
    for (int part = 0; part < 4; ++part) {
      multiply.a[i][part] = warp.lanes[i]->Get<uint32_t>(step.r[sums + part]);
    }
  }
  multiply.b = warp.lanes[0]->Get<uint64_t>(step.r[sums + 4]);
  multiply.adds = warp.lanes[0]->registers[step.r[sums + 5]] != 0;
  for (const Thread* const lane : warp.lanes) {
    if (lane->Get<uint64_t>(step.r[sums + 4]) == multiply.b &&
        (lane->registers[step.r[sums + 5]] != 0) == multiply.adds) {
      continue;
    }
    return warp.lanes[0]->Fault("lanes have different descriptors or predicates");
  }
  multiply.b_bytes = ReadB(warp, multiply);
  Hold(warp, step, 1);
  warp.multiplies.push_back(std::move(multiply));
}

// A row of a warp's 16, K numbers.
void UnpackA(const AsyncMultiply& multiply, bool fp8, float (&a)[16][32]) {
  const int numbers = fp8 ? 4 : 2;  // of a register
  for (int i = 0; i < kWarpThreads; ++i) {
    for (int part = 0; part < 4; ++part) {
      const int row = i / 4 + 8 * (part % 2);
      const int column = numbers * (i % 4 + 4 * (part / 2));
      for (int n = 0; n < numbers; ++n) {
        const uint32_t bits = multiply.a[i][part] >> (32 / numbers * n);
        a[row][column + n] = fp8 ? FromE4M3(bits & 0xff) : FromBFloat16(bits);
      }
    }
  }
}

float NumberOfB(const AsyncMultiply& multiply, bool fp8, int column, int k) {
  const std::byte* const row = &multiply.b_bytes[column * kRowBytes];
  const auto byte = [row](ptrdiff_t i) { return static_cast<uint32_t>(row[i]); };
  if (fp8) return FromE4M3(byte(k));
  return FromBFloat16(byte(ptrdiff_t{2} * k) | byte(ptrdiff_t{2} * k + 1) << 8);
}

void End(Warp& warp, AsyncMultiply& multiply) {
  const Step& step = *multiply.step;
  if (ReadB(warp, multiply) != multiply.b_bytes) {
    return warp.lanes[0]->Fault("what a multiply under way reads has changed");
  }
  const bool fp8 = step.count == 32;
  float a[16][32];
  UnpackA(multiply, fp8, a);
  for (int column = 0; column < NumColumns(step); ++column) {
    float b[32];
    for (int k = 0; k < step.count; ++k) b[k] = NumberOfB(multiply, fp8, column, k);
    for (int row = 0; row < 16; ++row) {
      Thread& lane = *warp.lanes[row % 8 * 4 + column % 8 / 2];
      const Register sum = step.r[column / 8 * 4 + row / 8 * 2 + column % 2];
      const float before = multiply.adds ? lane.Get<float>(sum) : 0.0f;
      lane.Set<float>(
          sum, TensorSum(a[row], b, step.count, before, fp8 ? kE4M3Precision : kBFloat16Precision));
    }
  }
  Hold(warp, step, -1);
}

void Commit(Warp& warp, const Step&) {
  warp.multiply_groups.push_back(std::exchange(warp.multiplies, {}));
}

void Wait(Warp& warp, const Step& step) {
  const size_t most_pending = warp.lanes[0]->Get<uint32_t>(step.r[0]);
  while (warp.multiply_groups.size() > most_pending) {
    for (AsyncMultiply& multiply : warp.multiply_groups.front()) End(warp, multiply);
    warp.multiply_groups.pop_front();
  }
}

void Fence(Warp& warp, const Step&) {
  for (Thread* const lane : warp.lanes) lane->multiply_fence = lane->step;
}

// wgmma.mma_async.sync.aligned.m64n<columns>k<K>.f32.<types> {sums}, {a0..a3}, descriptor, adds, 1, 1
// {, 0}: neither is negated, nor B transposed.
bool PrepareMultiply(const Instruction& instruction, Step& step) {
  const bool bf16 = instruction.Has("bf16");
  if (!bf16 && !instruction.Has("e4m3")) return false;
  const std::string shape = instruction.parts[4];
  const size_t n = shape.find('n'), k = shape.find('k');
  if (shape.rfind("m64", 0) != 0 || !absl::SimpleAtoi(shape.substr(n + 1, k - n - 1), &step.size) ||
      !absl::SimpleAtoi(shape.substr(k + 1), &step.count)) {
    return false;
  }
  if (step.count != (bf16 ? 16 : 32) || instruction.operand_sizes[0] != NumSums(step) ||
      instruction.operand_sizes[1] != 4) {
    return false;
  }
  step.together = Begin;
  return true;
}

}  // namespace

bool PrepareWarpgroup(const Instruction& instruction, Step& step) {
  if (instruction.parts[0] != "wgmma") return false;
  step.execute = MeetWarp;
  const std::string& what = instruction.parts[1];
  if (what == "mma_async") return PrepareMultiply(instruction, step);
  if (what == "fence") step.together = Fence;
  if (what == "commit_group") step.together = Commit;
  if (what == "wait_group") step.together = Wait;
  return step.together != nullptr;
}

}  // namespace sluice::cuda::emulator
