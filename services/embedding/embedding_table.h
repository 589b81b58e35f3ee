// The token embedding of a model, [V, H], and what its positions add to it: a learned table or
// sines and cosines; and where the model has them the embeddings for each layer (SideSpec). In memory of a backend. Driven by one thread at a time, as its backend is; the
// backend must outlive it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/backend.h"
#include "services/model/adapter_source.h"
#include "services/model/model_config.h"
#include "services/model/weights.h"

namespace sluice {

class EmbeddingTable {
 public:
  // Reads the tables through `source`, a few rows at a time, and keeps them as F32, BF16 or, in memory
  // of the host, as rows of the quantised format that FormatOf gives them. Errors as
  // WeightSource::Read, or RESOURCE_EXHAUSTED.
  static absl::StatusOr<EmbeddingTable> Load(const ModelConfig& config, const WeightSource& source,
                                             WeightType weights, Backend& backend);

  // out[t] = the embedding of ids[t], times the model's scale, plus the vector of its position and,
  // in models with token types, that of types[t], 0 where `types` is empty; then the norm of that,
  // where the model has one.
  // `positions`, as long as `ids`, are absolute positions in each token's sequence; models with
  // neither learned nor sinusoidal positions read none. Position p's sinusoidal vector is
  // sin(p w_0), cos(p w_0), sin(p w_1), ... with w_i = 10000^(-2i/H) (Vaswani et al. 2017), or all its
  // sines, then all its cosines (PositionKind). Of encoder-decoders, position p of a source is -1 - p, and
  // those of texts count from 0: each has a table and a norm of its own.
  // Behind it, in models with embeddings for each layer, those of all layers: for layer l
  // (norm(projection_l(e) / sqrt(H)) + sqrt(S) * table_l[ids[t]]) / sqrt(2), e being the embedding.
  // out [T, row_width()] is memory of the backend, F32, T = ids.size().
  // INVALID_ARGUMENT, with `out` untouched, where an id is outside [0, V), or a position that is
  // read or a type outside the model's; RESOURCE_EXHAUSTED where the backend lacks memory.
  absl::Status Embed(absl::Span<const int32_t> ids, absl::Span<const int32_t> positions,
                     MatrixView out) {
    return Embed(ids, positions, /*slots=*/{}, out);
  }
  // The same where token t has the adapter in slots[t], or none where that is negative; empty: none
  // has one.
  absl::Status Embed(absl::Span<const int32_t> ids, absl::Span<const int32_t> positions,
                     absl::Span<const int32_t> slots, MatrixView out,
                     absl::Span<const int32_t> types = {});

  // Takes up what an adapter changes of the table, in place of what the slot had.
  void LoadAdapter(int slot, std::shared_ptr<const AdapterSource> source);
  void DropAdapter(int slot);
  void DropAdapters() { adapters_.clear(); }

  int64_t vocab_size() const { return table_.rows; }
  int64_t hidden_size() const { return table_.cols; }
  // H, and what embeddings for each layer take.
  int64_t row_width() const { return hidden_size() + side_table_.cols; }
  size_t weight_bytes() const {
    const auto bytes = [](const std::unique_ptr<Buffer>& buffer) {
      return buffer == nullptr ? size_t{0} : buffer->size_bytes();
    };
    size_t sum = bytes(type_memory_) + side_bytes() + packed_rows_.size() + bytes(memory_);
    for (const Side* side : {&text_, &source_}) {
      sum += bytes(side->position_memory) + bytes(side->norm) + bytes(side->norm_bias);
    }
    return sum;
  }

 private:
  EmbeddingTable(const ModelConfig& config, Backend& backend);

  absl::Status CheckIds(absl::Span<const int32_t> ids) const;
  absl::Status CheckPositions(absl::Span<const int32_t> positions) const;
  bool adds_positions() const;
  // out += the vectors of the positions.
  // What positions and norms are of the source of an encoder-decoder, or of all other texts.
  struct Side {
    int max_positions = 0;                    // 0: there are no such texts
    std::unique_ptr<Buffer> position_memory;  // of learned positions
    MatrixView position_table;                // [position_offset + max_positions, H]
    std::unique_ptr<Buffer> norm;             // [H], of what leaves the table; null: none
    std::unique_ptr<Buffer> norm_bias;
  };
  absl::Status AddPositions(const Side& side, absl::Span<const int32_t> positions, MatrixView out);
  void Norm(const Side& side, MatrixView x);
  // Gives `use` each run of rows of one side, with its positions counted from 0.
  absl::Status ForEachSide(
      absl::Span<const int32_t> positions,
      absl::FunctionRef<absl::Status(const Side&, absl::Span<const int32_t>, int64_t first)> use);
  absl::Status CheckTypes(absl::Span<const int32_t> types) const;
  // out += rows of a table.
  absl::Status AddRows(MatrixView table, absl::Span<const int32_t> rows, MatrixView out);
  absl::Status LoadSide(const ModelConfig& config, const WeightSource& source, WeightFormat wanted,
                        TensorRole positions, TensorRole norm, TensorRole norm_bias, Side& side);
  // Memory for what is added to `out`.
  absl::StatusOr<MatrixView> RoomLike(MatrixView out);
  void ComputeSinusoids(absl::Span<const int32_t> positions, MatrixView rows);
  absl::Status LoadSides(const ModelConfig& config, const WeightSource& source,
                         WeightFormat wanted);
  // `out` [T, L * S] = the embeddings for each layer of tokens whose embeddings are `x`.
  absl::Status EmbedSides(absl::Span<const int32_t> ids, MatrixView x, MatrixView out);
  size_t side_bytes() const {
    return side_memory_ == nullptr ? 0
                                   : side_memory_->size_bytes() + side_projection_->size_bytes();
  }
  // What an adapter changes: `source` replaces rows, `factors` are added to them.
  struct TableAdapter {
    std::shared_ptr<const AdapterSource> source;
    LowRankFactors factors;  // b [V, rank], a [rank, H]; of rank 0: none
  };
  absl::Status ApplyAdapters(absl::Span<const int32_t> ids, absl::Span<const int32_t> slots,
                             MatrixView x);
  // out = rows of the packed table.
  void UnpackRows(absl::Span<const int32_t> ids, MatrixView out);

  PositionKind position_;
  int position_offset_;  // ModelConfig's
  float scale_;
  Backend* backend_;
  std::unique_ptr<Buffer> memory_;      // null where rows are packed
  MatrixView table_;                    // [V, H]; without memory where rows are packed
  std::vector<std::byte> packed_rows_;  // of packed_format_
  WeightFormat packed_format_ = WeightFormat::kF32;
  Side text_, source_;
  std::unique_ptr<Buffer> position_rows_;  // of the step at hand; grows
  std::unique_ptr<Buffer> type_memory_;    // null where there are no token types
  MatrixView type_table_;                  // [types, H]
  NormKind norm_kind_;
  // Of embeddings for each layer.
  std::unique_ptr<Buffer> side_memory_;
  MatrixView side_table_;  // [V, L * S]; no columns where there are none
  std::unique_ptr<PackedMatrix> side_projection_;
  std::unique_ptr<Buffer> side_norm_;       // [S]
  std::unique_ptr<Buffer> side_projected_;  // of the step at hand; grows
  float norm_eps_;
  std::vector<std::unique_ptr<TableAdapter>> adapters_;  // by slot; null where the table stays
  std::unique_ptr<Buffer> addend_;                       // [1, H], of a row
};

}  // namespace sluice
