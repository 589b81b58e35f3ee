// The weights of a model by role instead of by name: what a stage, the embedding and the sampler
// read while they load, a tensor (or a slice of one) at a time into memory they own. Nothing is
// held here but the mapped files, so a loading process peaks near the size of what it keeps.
//
//   for each layer of plan.layers, for each matrix of LayerTensors(config):
//     slice = SliceOf(matrix, config, plan)
//     backend.Pack(spec, [&](int64_t begin, int64_t end, absl::Span<std::byte> out) {
//       return source.Read(matrix, layer, slice.Rows(begin, end), spec.dtype, out);
//     });
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/dtype.h"
#include "services/model/checkpoint.h"
#include "services/model/model_config.h"
#include "services/model/progress.h"
#include "services/model/shard_plan.h"
#include "services/model/tensor_names.h"
#include "services/model/tensor_slice.h"

namespace sluice {

// A decoder layer's tensors. Projections are [outputs, inputs], row-major: y = W x.
enum class LayerTensor : uint8_t {
  kInputNorm,              // [H], before attention
  kQ,                      // [Nq * D, H]
  kK,                      // [Nkv * D, H]
  kV,                      // [Nkv * D, H]
  kO,                      // [H, Nq * D]
  kPostAttentionNorm,      // [H], before the MLP
  kGate,                   // [intermediate, H]
  kUp,                     // [intermediate, H]
  kDown,                   // [H, intermediate]
  kQBias,                  // [Nq * D]
  kKBias,                  // [Nkv * D]
  kVBias,                  // [Nkv * D]
  kOBias,                  // [H]
  kGateBias,               // [intermediate]
  kUpBias,                 // [intermediate]
  kDownBias,               // [H]
  kInputNormBias,          // [H]
  kPostAttentionNormBias,  // [H]
  kQNorm,                  // [D]
  kKNorm,                  // [D]
};
inline constexpr int kNumLayerTensors = 20;

// The tensors outside the layers.
enum class ModelTensor : uint8_t {
  kEmbedding,      // [V, H]
  kFinalNorm,      // [H]
  kHead,           // [V, H]; reads the embedding where the two are tied
  kPositions,      // [max_positions, H], learned
  kFinalNormBias,  // [H]
};
inline constexpr int kNumModelTensors = 5;

// The tensors that a layer of this model has, in the order of the enum.
std::vector<LayerTensor> LayerTensors(const ModelConfig& config);
// The tensors outside the layers that this model has, likewise.
std::vector<ModelTensor> ModelTensors(const ModelConfig& config);

MatrixShape ShapeOf(LayerTensor tensor, const ModelConfig& config);
MatrixShape ShapeOf(ModelTensor tensor, const ModelConfig& config);

// The part of a layer's tensor that the shard of this plan holds: rows of q, k, v, gate and up and
// of their biases, columns of o and down, all of the norms and of the biases of o and down (which
// are added once, after the ranks' sums).
TensorSlice SliceOf(LayerTensor tensor, const ModelConfig& config, const ShardPlan& plan);

// In which type a process keeps its matrices; kAuto: as the file stores them (BF16 as BF16, F32 and
// F16 as F32).
enum class WeightType : uint8_t { kAuto, kF32, kBF16 };

// "auto", "f32" or "bf16"; INVALID_ARGUMENT otherwise.
absl::StatusOr<WeightType> ParseWeightType(const std::string& text);

// Immutable but for `progress`, which is thread-safe itself: safe to share among threads.
class WeightSource {
 public:
  // Opens the folder's checkpoint and checks, before any weight is read, that every tensor of the
  // model is there with its shape and a readable type; errors as Checkpoint::Open and ::Find.
  // `progress` (may be null) hears of every byte read and must outlive the source.
  static absl::StatusOr<WeightSource> Open(const std::string& folder, const ModelConfig& config,
                                           Progress* progress = nullptr);

  // The type to keep matrices in: F32 or BF16. The first layer's query projection speaks for the
  // file.
  DType Resolve(WeightType type) const;

  // Reads a slice into `out`, row-major without padding, as elements of type `as`: F32 or BF16
  // (rounded to nearest even). How the file arranges the tensor does not show, but for the time it
  // takes: ReadsWholeTensors(). Errors as Checkpoint::Find.
  // REQUIRES: the model has the tensor, layer in [0, L), the slice lies within ShapeOf(tensor),
  // out.size() == slice.size() * SizeOf(as).
  absl::Status Read(LayerTensor tensor, int layer, const TensorSlice& slice, DType as,
                    absl::Span<std::byte> out) const;
  absl::Status Read(ModelTensor tensor, const TensorSlice& slice, DType as,
                    absl::Span<std::byte> out) const;

  // The same as floats: norms and biases, whatever the matrices are kept in. The weights of norms
  // come with config.norm_weight_offset added.
  absl::StatusOr<std::vector<float>> ReadFloats(LayerTensor tensor, int layer,
                                                const TensorSlice& slice) const;
  absl::StatusOr<std::vector<float>> ReadFloats(ModelTensor tensor, const TensorSlice& slice) const;

  // Whether a file's layout makes reading a projection a few rows at a time slow, because it is
  // stored transposed: better read all rows of a slice at once.
  bool ReadsWholeTensors() const { return names_->transposed; }

  // Bytes of the files that reading it all will take, for Progress::Expect.
  uint64_t BytesOf(const ShardPlan& plan) const;
  uint64_t BytesOf(ModelTensor tensor) const;

 private:
  // Where a tensor lies: [rows, columns] in the file, of which row r of the tensor is row
  // first_row + r / run * stride + r % run.
  struct Place {
    std::string name;
    MatrixShape stored;  // as rows of outputs, even where the file has it transposed
    int64_t first_row = 0;
    int64_t run = 0;
    int64_t stride = 0;
    bool transposed = false;
    bool is_norm_weight = false;
  };

  WeightSource(const ModelConfig& config, const TensorNames& names, Checkpoint checkpoint,
               Progress* progress);

  Place PlaceOf(LayerTensor tensor, int layer) const;
  Place PlaceOf(ModelTensor tensor) const;
  std::string NameOf(const char* module, const char* suffix) const;
  absl::Status CheckTensors() const;
  absl::StatusOr<StoredTensor> Find(const Place& place) const;
  uint64_t StoredBytes(const Place& place, const TensorSlice& slice) const;
  absl::Status ReadPlaced(const Place& place, const TensorSlice& slice, DType as,
                          absl::Span<std::byte> out) const;
  absl::Status ReadRun(const Place& place, const TensorSlice& stored, DType as,
                       absl::Span<std::byte> out) const;
  absl::StatusOr<std::vector<float>> ReadPlacedFloats(const Place& place,
                                                      const TensorSlice& slice) const;

  ModelConfig config_;
  const TensorNames* names_;
  Checkpoint checkpoint_;
  Progress* progress_;
  bool has_prefix_ = true;  // the names' optional one
};

}  // namespace sluice
