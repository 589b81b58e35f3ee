// Predicted costs of the kernels of a step: the bytes, launches, blocks and waves that gemm_plan.h
// and attention_plan.h lead to, and the least time that a GPU of given rates needs for them. Pure
// functions; nothing is measured here. tests/gpu holds measured times against these.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "kernels/cuda/attention_plan.h"
#include "kernels/cuda/gemm_plan.h"
#include "kernels/dtype.h"

namespace sluice::cuda {

// What a GPU does in a second or a clock. Rates of a multiprocessor unless they say otherwise.
struct GpuRates {
  int num_multiprocessors = 132;
  double clocks_per_second = 1.755e9;
  double memory_bytes_per_second = 4.3e12;  // of the GPU, as copies reach it
  double memory_latency_seconds = 1e-6;     // of a busy memory
  // While all multiprocessors read: the least that published products of 128 x 256 tiles must
  // reach, 6 TB/s of the GPU. One by itself takes more.
  double l2_bytes_per_clock = 26;
  double l2_bytes_per_clock_at_most = 64;
  double shared_bytes_per_clock = 128;
  double operations_per_clock = 4096;  // of BF16 numbers; a multiply-add is two
  double launch_seconds = 1.2e-6;      // between dependent kernels of a recorded step
  int64_t shared_bytes = 228 << 10;    // of all blocks
  int64_t shared_bytes_of_block = 227 << 10;
};
inline constexpr GpuRates kH200Rates = {};
inline constexpr GpuRates kH100Rates = {.memory_bytes_per_second = 3.0e12};

// What limits a kernel.
enum class Bound : uint8_t { kMemory, kL2, kShared, kTensor, kLatency };
const char* Name(Bound bound);

// The cost of one operation, which may take several launches.
struct KernelCost {
  std::string name;
  int launches = 1;
  int64_t blocks = 0;
  int64_t blocks_at_a_time = 1;  // of the whole GPU
  double memory_bytes = 0;       // read or written once
  double l2_bytes = 0;           // requested by all blocks
  double shared_bytes = 0;       // read and written in shared memory by all blocks
  double tensor_clocks = 0;      // of all blocks
  double longest_over_mean = 1;  // work of the block that has most, against the mean of blocks
  double seconds = 0;            // predicted, launches included
  Bound bound = Bound::kMemory;  // of the largest part of `seconds`

  double waves() const {
    return static_cast<double>(blocks) / static_cast<double>(blocks_at_a_time);
  }
  // Bytes of shared memory in each clock in which tensor cores multiply.
  double shared_bytes_per_tensor_clock() const { return shared_bytes / tensor_clocks; }
};

// A weight matrix, as Backend::Pack takes it.
struct ProductShape {
  const char* name = "";
  int64_t outputs = 0;
  int64_t inputs = 0;
  int slices = 1;
  bool gated = false;
};

// Blocks of `plan` that a multiprocessor runs at a time.
int64_t BlocksOfMultiprocessor(const GemmPlan& plan, ImageFormat format, const RunShape& runs,
                               const GpuRates& rates);

// The runs of a product's K, of pairs in pairs.
RunShape RunsOf(const ProductShape& shape, ImageFormat format);

// A product of `rows` rows as `plan` shares it out, with the launch that rearranges activations.
KernelCost CostOfPlan(const ProductShape& shape, int64_t rows, ImageFormat format,
                      const GemmPlan& plan, const GpuRates& rates);
// The same by the plan of PlanGemm().
KernelCost CostOfProduct(const ProductShape& shape, int64_t rows, ImageFormat format, GemmPath path,
                         const GpuRates& rates);

// Attention of a layer and the kernel that merges splits.
struct AttentionCosts {
  KernelCost decode, prefill, merge;
};
AttentionCosts CostOfAttention(absl::Span<const AttentionSegment> segments,
                               const AttentionShape& shape, int head_dim, DType dtype,
                               const GpuRates& rates);

// A kernel that reads and writes `bytes`, bound by memory or by its launch.
KernelCost CostOfBytes(std::string name, double bytes, const GpuRates& rates);

// A decoder whose layers are alike.
struct DecoderShape {
  int64_t hidden = 0, mlp = 0, vocabulary = 0;
  int heads = 0, kv_heads = 0, head_dim = 0, layers = 0;
};
inline constexpr DecoderShape kLlama8b = {4096, 14336, 128256, 32, 8, 128, 32};

// Products of a layer, and the head.
std::vector<ProductShape> ProductsOf(const DecoderShape& decoder);

// Kernels of one layer and, last, of the head, for a step of `segments` with weights in `format`.
struct StepCost {
  std::vector<KernelCost> of_layer;
  std::vector<KernelCost> of_head;
  int layers = 0;

  int launches() const;
  double seconds() const;
};
StepCost CostOfStep(const DecoderShape& decoder, absl::Span<const AttentionSegment> segments,
                    ImageFormat format, DType kv_dtype, GemmPath path, const GpuRates& rates);

}  // namespace sluice::cuda
