// The weights of a model by role instead of by name: what a stage, the embedding and the sampler
// read while they load, a tensor (or a slice of one) at a time into memory they own. Nothing is
// held here but the mapped files, so a loading process peaks near the size of what it keeps.
//
//   for each layer of plan.layers, for each matrix of TensorsOfLayer(layer, config):
//     slice = SliceOf(matrix, config, plan)
//     spec.format = FormatOf(matrix, config, source.Resolve(type))
//     backend.Pack(spec, [&](int64_t begin, int64_t end, absl::Span<std::byte> out) {
//       return source.Read(matrix, slice.Rows(begin, end), spec.format, out);
//     });
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/dtype.h"
#include "kernels/weight_format.h"
#include "services/model/checkpoint.h"
#include "services/model/model_config.h"
#include "services/model/progress.h"
#include "services/model/published/published_matrix.h"
#include "services/model/shard_plan.h"
#include "services/model/storage_type.h"
#include "services/model/tensor_place.h"
#include "services/model/tensor_roles.h"
#include "services/model/tensor_slice.h"
#include "services/model/weight_rule.h"

namespace sluice {

// Immutable but for `progress`, which is thread-safe itself: safe to share among threads.
class WeightSource {
 public:
  // Opens the folder's checkpoint and checks, before any weight is read, that every tensor of the
  // model is there with its shape and a readable type, and that quantised ones were written for
  // this configuration; errors as Checkpoint::Open and ::Find. `progress` (may be null) hears of
  // every byte read and must outlive the source.
  static absl::StatusOr<WeightSource> Open(const std::string& folder, const ModelConfig& config,
                                           Progress* progress = nullptr);

  // The format that is asked for: what FormatOf takes. For kAuto that of a quantised file, whoever
  // wrote it, else F32 or BF16, for which the first layer's query projection speaks; F32 where
  // that lies in blocks of GGUF. INVALID_ARGUMENT where the file is quantised and another quantised
  // format is asked for.
  absl::StatusOr<WeightFormat> Resolve(WeightType type) const;

  // Reads a slice into `out`, rows one after another in `as`: plain elements (BF16 rounded to
  // nearest even), or quantised as EncodeRow does it. A file that is quantised gives its own
  // quotients where `as` is its format, else what DecodeRow makes of them. How the file arranges
  // the tensor does not show, but for the time it takes: ReadsWhole(). Safe to call from
  // several threads at a time. Errors as Checkpoint::Find, or INVALID_ARGUMENT for a quotient out
  // of range. REQUIRES: the model has the tensor, the slice lies within
  // ShapeOf(tensor), its columns begin and end at multiples of the groups of `as` and of the file's
  // format, out.size() == slice.rows.size() * RowBytes(as, slice.columns.size()).
  absl::Status Read(TensorId tensor, const TensorSlice& slice, WeightFormat as,
                    absl::Span<std::byte> out) const;
  // The same of a slice of what is at a place.
  absl::Status Read(const TensorPlace& place, const TensorSlice& slice, WeightFormat as,
                    absl::Span<std::byte> out) const;

  // The same as floats: norms and biases, whatever the matrices are kept in. The weights of norms
  // come with config.norm_weight_offset added.
  absl::StatusOr<std::vector<float>> ReadFloats(TensorId tensor, const TensorSlice& slice) const;

  // Whether a file's layout makes reading a matrix a few rows at a time slow, because it is stored
  // transposed: better read all rows of a slice at once.
  bool ReadsWhole(TensorId tensor) const { return places_.AreSpread(tensor) || stores_by_input_; }

  // The block formats of a GGUF file's matrices, in the order of the alphabet, each once, such as
  // "Q4_K, Q6_K"; empty where it has none.
  std::string BlockFormats() const;
  // What such blocks are kept as where `wanted` is asked for, such as "Q4_0 as int4-zp, Q6_K as f32".
  std::string KeptBlocks(WeightFormat wanted) const;

  // Where the files hold what.
  const TensorPlaces& places() const { return places_; }
  // The type of the elements at a place that `sluice quantize` has not written: F32, F16 or BF16,
  // FP8 as others have it, or F32, to which other layouts and GGUF's blocks are decoded.
  DType StoredType(const TensorPlace& place) const;

  // Bytes of the files that reading it all will take, for Progress::Expect.
  uint64_t BytesOf(const ShardPlan& plan) const;
  uint64_t BytesOf(TensorId tensor) const;
  uint64_t BytesOf(const TensorPlace& place, const TensorSlice& slice) const;

 private:
  WeightSource(const ModelConfig& config, TensorPlaces places, Checkpoint checkpoint,
               Progress* progress);

  absl::StatusOr<WeightFormat> ResolveQuantized(WeightFormat wanted) const;
  absl::Status CheckIdentity() const;
  absl::Status CheckTensors();
  const StoredTensor& StoredTensorAt(const TensorPlace& place) const;
  absl::Status CheckPlace(const TensorPlace& place) const;
  absl::Status ReadRowsApart(const TensorPlace& place, const TensorSlice& slice, WeightFormat as,
                             absl::Span<std::byte> out) const;
  bool IsPublishedFp8(const TensorPlace& place) const;
  // The matrix there that others quantised in another layout, or nullptr.
  const PublishedMatrix* PublishedAt(const TensorPlace& place) const;
  absl::Status OpenPublished(const TensorPlace& place);
  absl::Status CheckPieces(const TensorPlace& place) const;
  absl::Status ReadPieces(const TensorPlace& place, const TensorSlice& slice, WeightFormat as,
                          absl::Span<std::byte> out) const;
  MatrixShape Fp8Block() const;
  // These read rows that lie together in the file.
  absl::Status ReadTiledColumns(const TensorPlace& place, const TensorSlice& slice, WeightFormat as,
                                absl::Span<std::byte> out) const;
  absl::Status ReadRuns(const TensorPlace& place, const TensorSlice& slice, WeightFormat as,
                        absl::Span<std::byte> out) const;
  absl::Status ReadSpread(const TensorPlace& place, const TensorSlice& slice, WeightFormat as,
                          absl::Span<std::byte> out) const;
  absl::Status ReadRun(const TensorPlace& place, const TensorSlice& stored, WeightFormat as,
                       absl::Span<std::byte> out) const;
  absl::Status ReadPlain(const TensorPlace& place, const TensorSlice& stored, DType as,
                         absl::Span<std::byte> out) const;
  absl::Status ReadQuantized(const TensorPlace& place, const TensorSlice& stored,
                             absl::Span<std::byte> out) const;
  absl::Status ReadFp8(const TensorPlace& place, const TensorSlice& stored, WeightFormat as,
                       absl::Span<std::byte> out) const;
  absl::Status ReadPublished(const PublishedMatrix& matrix, const MatrixPart& part, WeightFormat as,
                             absl::Span<std::byte> out) const;

  ModelConfig config_;
  TensorPlaces places_;
  Checkpoint checkpoint_;
  // By the name of the matrix; they borrow the checkpoint's memory.
  std::map<std::string, std::unique_ptr<PublishedMatrix>> published_;
  bool stores_by_input_ = false;  // one of them does
  Progress* progress_;
};

}  // namespace sluice
