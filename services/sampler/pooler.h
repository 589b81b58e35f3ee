// The end of a model that embeds texts: hidden rows to one vector a text, as the model's EmbedderSpec
// says. Driven by one thread at a time, as its backend is; the backend must outlive it. A text's
// vector does not depend on the other texts of a call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/backend.h"
#include "services/model/model_config.h"
#include "services/model/weights.h"

namespace sluice {

class Pooler {
 public:
  // Reads the final norm, where the model has one, through `source`, and the layers behind the
  // pooling from their folders. They are kept as F32, whatever the model's weights are.
  // RESOURCE_EXHAUSTED where the backend lacks memory, else as WeightSource::Read and
  // Checkpoint::Read. REQUIRES: the model has an EmbedderSpec.
  static absl::StatusOr<Pooler> Load(const ModelConfig& config, const WeightSource& source,
                                     Backend& backend);

  // The vector of each text. hidden [T, row_width()] F32, memory of the backend: the rows of the
  // texts one after another, of text i so many as counts[i] >= 1 says, T together. They are all rows
  // of a text or, where EmbedderSpec::needs_all_rows() is false, the one that its pooling names.
  absl::StatusOr<std::vector<std::vector<float>>> Pool(MatrixView hidden,
                                                       absl::Span<const int64_t> counts);

  int dimensions() const { return spec_.dimensions; }
  size_t weight_bytes() const;

 private:
  struct Layer {
    EmbedderStep spec;
    std::unique_ptr<PackedMatrix> matrix;  // of kDense
    std::unique_ptr<Buffer> bias;          // of kDense, on the backend; null: none
    std::vector<float> weight, offset;     // of kNorm
  };

  Pooler(const ModelConfig& config, Backend& backend);

  absl::Status LoadFinalNorm(const ModelConfig& config, const WeightSource& source);
  absl::Status LoadLayer(const EmbedderStep& spec);
  // The rows after the final norm, [rows, H], of at most kTileRows.
  absl::Status ReadRows(MatrixView hidden, absl::Span<float> out);
  // x [texts, inputs] becomes [texts, outputs].
  absl::Status Apply(const Layer& layer, int64_t texts, std::vector<float>& x);
  absl::Status ApplyDense(const Layer& layer, int64_t texts, std::vector<float>& x);

  Backend* backend_;
  EmbedderSpec spec_;
  NormKind norm_kind_;
  float norm_eps_;
  int64_t hidden_size_;
  std::unique_ptr<Buffer> norm_;       // [H]; null: the model has no final norm
  std::unique_ptr<Buffer> norm_bias_;  // [H]; null: none
  std::unique_ptr<Buffer> rows_;       // [kTileRows, H]
  std::vector<Layer> layers_;
  std::unique_ptr<Buffer> inputs_, outputs_;  // of dense layers, of kTileTexts texts
};

}  // namespace sluice
