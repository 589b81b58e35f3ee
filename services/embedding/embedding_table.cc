#include "services/embedding/embedding_table.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/check.h"

namespace sluice {
namespace {

// Bytes that are converted before they are copied to the backend.
constexpr int64_t kStagingBytes = int64_t{1} << 20;

absl::Status CopyTable(const WeightSource& source, TensorId tensor, WeightFormat format,
                       MatrixView table, Backend& backend) {
  const int64_t row_bytes = table.cols * static_cast<int64_t>(SizeOf(table.dtype));
  const int64_t step = std::clamp<int64_t>(kStagingBytes / row_bytes, 1, table.rows);
  std::vector<std::byte> staging(step * row_bytes);
  for (int64_t begin = 0; begin < table.rows; begin += step) {
    const IndexRange rows{begin, std::min(begin + step, table.rows)};
    const auto part = absl::MakeSpan(staging).first(rows.size() * row_bytes);
    absl::Status read = source.Read(tensor, {rows, {0, table.cols}}, format, part);
    if (!read.ok()) return read;
    backend.CopyIn(part, table.Rows(begin, rows.size()).data);
  }
  return absl::OkStatus();
}

// A tensor [rows, H] in memory of its own.
struct Loaded {
  std::unique_ptr<Buffer> memory;
  MatrixView table;
};

absl::StatusOr<Loaded> LoadTable(const WeightSource& source, TensorId tensor, MatrixShape shape,
                                 WeightFormat format, Backend& backend) {
  SLUICE_CHECK(!IsQuantized(format));  // rows are gathered, not multiplied
  const DType dtype = format == WeightFormat::kF32 ? DType::kF32 : DType::kBF16;
  auto memory = backend.Allocate(shape.size() * SizeOf(dtype));
  if (!memory.ok()) return memory.status();
  const MatrixView table{(*memory)->data(), dtype, shape.rows, shape.columns, shape.columns};
  if (absl::Status copied = CopyTable(source, tensor, format, table, backend); !copied.ok())
    return copied;
  return Loaded{*std::move(memory), table};
}

absl::StatusOr<std::vector<std::byte>> ReadPacked(const WeightSource& source, TensorId tensor,
                                                  MatrixShape shape, WeightFormat format) {
  const auto row_bytes = static_cast<int64_t>(RowBytes(format, shape.columns));
  std::vector<std::byte> packed(shape.rows * row_bytes);
  const int64_t step = std::clamp<int64_t>(kStagingBytes / row_bytes, 1, shape.rows);
  for (int64_t begin = 0; begin < shape.rows; begin += step) {
    const IndexRange rows{begin, std::min(begin + step, shape.rows)};
    const auto part = absl::MakeSpan(packed).subspan(begin * row_bytes, rows.size() * row_bytes);
    absl::Status read = source.Read(tensor, {rows, {0, shape.columns}}, format, part);
    if (!read.ok()) return read;
  }
  return packed;
}

}  // namespace

EmbeddingTable::EmbeddingTable(const ModelConfig& config, Backend& backend)
    : position_(config.position),
      position_offset_(config.position_offset),
      scale_(config.embedding_scale),
      backend_(&backend),
      norm_kind_(config.norm),
      norm_eps_(config.norm_eps) {
  text_.max_positions = config.max_positions;
  if (!config.source.has_value()) return;
  text_.max_positions = config.source->max_written;
  source_.max_positions = config.source->max_positions;
}

absl::StatusOr<EmbeddingTable> EmbeddingTable::Load(const ModelConfig& config,
                                                    const WeightSource& source, WeightType weights,
                                                    Backend& backend) {
  const auto wanted = source.Resolve(weights);
  if (!wanted.ok()) return wanted.status();
  const auto load = [&](TensorId tensor) {
    return LoadTable(source, tensor, ShapeOf(tensor, config), FormatOf(tensor, config, *wanted),
                     backend);
  };
  EmbeddingTable result(config, backend);
  const TensorId tokens_id{TensorRole::kEmbedding};
  if (const WeightFormat format = FormatOf(tokens_id, config, *wanted); IsQuantized(format)) {
    auto packed = ReadPacked(source, tokens_id, ShapeOf(tokens_id, config), format);
    if (!packed.ok()) return packed.status();
    result.packed_rows_ = *std::move(packed);
    result.packed_format_ = format;
    result.table_ = {.dtype = DType::kF32, .rows = config.vocab_size, .cols = config.hidden_size};
  } else {
    auto tokens = load(tokens_id);
    if (!tokens.ok()) return tokens.status();
    result.memory_ = std::move(tokens->memory);
    result.table_ = tokens->table;
  }
  if (config.side_width() > 0) {
    const absl::Status loaded = result.LoadSides(config, source, *wanted);
    if (!loaded.ok()) return loaded;
  }
  if (config.num_token_types > 0) {
    auto types = load({TensorRole::kTokenTypes});
    if (!types.ok()) return types.status();
    result.type_memory_ = std::move(types->memory);
    result.type_table_ = types->table;
  }
  using enum TensorRole;
  absl::Status sides = result.LoadSide(config, source, *wanted, kPositions, kEmbeddingNorm,
                                       kEmbeddingNormBias, result.text_);
  if (sides.ok() && config.source.has_value()) {
    sides = result.LoadSide(config, source, *wanted, kSourcePositions, kSourceEmbeddingNorm,
                            kSourceEmbeddingNormBias, result.source_);
  }
  if (!sides.ok()) return sides;
  return result;
}

absl::Status EmbeddingTable::CheckIds(absl::Span<const int32_t> ids) const {
  for (size_t t = 0; t < ids.size(); ++t) {
    if (ids[t] < 0 || ids[t] >= vocab_size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("token_ids[", t, "] is ", ids[t], "; accepted: 0 to ", vocab_size() - 1));
    }
  }
  return absl::OkStatus();
}

absl::Status EmbeddingTable::CheckPositions(absl::Span<const int32_t> positions) const {
  for (size_t t = 0; t < positions.size(); ++t) {
    const int least = -source_.max_positions, last = text_.max_positions - 1;
    if (positions[t] < least || positions[t] > last) {
      return absl::InvalidArgumentError(absl::StrCat("positions[", t, "] is ", positions[t],
                                                     "; accepted: ", least, " to ", last));
    }
  }
  return absl::OkStatus();
}

bool EmbeddingTable::adds_positions() const { return position_ != PositionKind::kNone; }

absl::Status EmbeddingTable::Embed(absl::Span<const int32_t> ids,
                                   absl::Span<const int32_t> positions,
                                   absl::Span<const int32_t> slots, MatrixView out,
                                   absl::Span<const int32_t> types) {
  SLUICE_CHECK(positions.size() == ids.size());
  SLUICE_CHECK(types.empty() || types.size() == ids.size());
  SLUICE_CHECK(out.rows == static_cast<int64_t>(ids.size()) && out.cols == row_width());
  if (absl::Status checked = CheckIds(ids); !checked.ok()) return checked;
  if (adds_positions()) {
    if (absl::Status checked = CheckPositions(positions); !checked.ok()) return checked;
  }
  if (absl::Status checked = CheckTypes(types); !checked.ok()) return checked;
  if (ids.empty()) return absl::OkStatus();
  const MatrixView x = out.Columns(0, hidden_size());
  if (memory_ != nullptr) {
    backend_->GatherRows(table_, ids, x);
  } else {
    UnpackRows(ids, x);
  }
  if (absl::Status applied = ApplyAdapters(ids, slots, x); !applied.ok()) return applied;
  if (scale_ != 1) backend_->Scale(scale_, x);
  if (side_table_.cols > 0) {
    return EmbedSides(ids, x, out.Columns(hidden_size(), side_table_.cols));
  }
  if (type_memory_ != nullptr) {
    const std::vector<int32_t> none(types.empty() ? ids.size() : 0);
    absl::Status added = AddRows(type_table_, types.empty() ? absl::MakeConstSpan(none) : types, x);
    if (!added.ok()) return added;
  }
  if (!adds_positions() && text_.norm == nullptr) return absl::OkStatus();
  return ForEachSide(positions, [&](const Side& side, absl::Span<const int32_t> of_side,
                                    int64_t first) {
    const MatrixView rows = x.Rows(first, static_cast<int64_t>(of_side.size()));
    absl::Status added = adds_positions() ? AddPositions(side, of_side, rows) : absl::OkStatus();
    if (added.ok()) Norm(side, rows);
    return added;
  });
}

absl::Status EmbeddingTable::ForEachSide(
    absl::Span<const int32_t> positions,
    absl::FunctionRef<absl::Status(const Side&, absl::Span<const int32_t>, int64_t first)> use) {
  std::vector<int32_t> of_source;
  for (size_t begin = 0, end = 0; begin < positions.size(); begin = end) {
    const bool is_source = positions[begin] < 0;
    while (end < positions.size() && (positions[end] < 0) == is_source) ++end;
    absl::Span<const int32_t> run = positions.subspan(begin, end - begin);
    if (is_source) {
      of_source.assign(run.begin(), run.end());
      for (int32_t& position : of_source) position = -1 - position;
      run = of_source;
    }
    absl::Status used = use(is_source ? source_ : text_, run, static_cast<int64_t>(begin));
    if (!used.ok()) return used;
  }
  return absl::OkStatus();
}

void EmbeddingTable::Norm(const Side& side, MatrixView x) {
  if (side.norm == nullptr) return;
  const auto* weight = static_cast<const float*>(side.norm->data());
  if (norm_kind_ == NormKind::kRmsNorm) {
    backend_->RmsNorm(x, weight, norm_eps_, x);
  } else {
    const auto* bias =
        side.norm_bias == nullptr ? nullptr : static_cast<const float*>(side.norm_bias->data());
    backend_->LayerNorm(x, weight, bias, norm_eps_, x);
  }
}

absl::Status EmbeddingTable::CheckTypes(absl::Span<const int32_t> types) const {
  const int64_t count =
      std::max<int64_t>(type_table_.rows, 1);  // without a table all have one type
  for (size_t t = 0; t < types.size(); ++t) {
    if (types[t] < 0 || types[t] >= count) {
      return absl::InvalidArgumentError(
          absl::StrCat("token_types[", t, "] is ", types[t], "; accepted: 0 to ", count - 1));
    }
  }
  return absl::OkStatus();
}

absl::Status EmbeddingTable::LoadSide(const ModelConfig& config, const WeightSource& source,
                                      WeightFormat wanted, TensorRole positions, TensorRole norm,
                                      TensorRole norm_bias, Side& side) {
  const auto load = [&](TensorRole role, std::unique_ptr<Buffer>& into) {
    const auto values = source.ReadFloats({role}, WholeOf(ShapeOf({role}, config)));
    if (!values.ok()) return values.status();
    auto memory = backend_->Allocate(values->size() * sizeof(float));
    if (!memory.ok()) return memory.status();
    into = *std::move(memory);
    backend_->CopyIn(
        {reinterpret_cast<const std::byte*>(values->data()), values->size() * sizeof(float)},
        into->data());
    return absl::OkStatus();
  };
  if (HasTensor({positions}, config)) {
    auto table = LoadTable(source, {positions}, ShapeOf({positions}, config),
                           FormatOf({positions}, config, wanted), *backend_);
    if (!table.ok()) return table.status();
    side.position_memory = std::move(table->memory);
    side.position_table = table->table;
  }
  absl::Status loaded;
  if (HasTensor({norm}, config)) loaded = load(norm, side.norm);
  if (loaded.ok() && HasTensor({norm_bias}, config)) loaded = load(norm_bias, side.norm_bias);
  return loaded;
}

absl::StatusOr<MatrixView> EmbeddingTable::RoomLike(MatrixView out) {
  const size_t bytes = static_cast<size_t>(out.rows * out.cols) * sizeof(float);
  if (position_rows_ == nullptr || position_rows_->size_bytes() < bytes) {
    auto memory = backend_->Allocate(bytes);
    if (!memory.ok()) return memory.status();
    position_rows_ = *std::move(memory);
  }
  return MatrixView{position_rows_->data(), DType::kF32, out.rows, out.cols, out.cols};
}

absl::Status EmbeddingTable::AddRows(MatrixView table, absl::Span<const int32_t> rows,
                                     MatrixView out) {
  const absl::StatusOr<MatrixView> added = RoomLike(out);
  if (!added.ok()) return added.status();
  backend_->GatherRows(table, rows, *added);
  backend_->AddResidual(*added, out);
  return absl::OkStatus();
}

void EmbeddingTable::LoadAdapter(int slot, std::shared_ptr<const AdapterSource> source) {
  DropAdapter(slot);
  const TensorId tensor{TensorRole::kEmbedding};
  if (!source->Has(tensor) && !source->Replaces(tensor)) return;
  auto adapter = std::make_unique<TableAdapter>();
  if (source->Has(tensor)) {
    adapter->factors = source->Read(tensor, WholeOf({vocab_size(), hidden_size()}));
  }
  if (source->Replaces(tensor)) adapter->source = std::move(source);
  if (adapters_.size() <= static_cast<size_t>(slot)) adapters_.resize(slot + 1);
  adapters_[slot] = std::move(adapter);
}

void EmbeddingTable::DropAdapter(int slot) {
  if (static_cast<size_t>(slot) < adapters_.size()) adapters_[slot] = nullptr;
}

// Row by row: few of a step's tokens have such an adapter.
absl::Status EmbeddingTable::ApplyAdapters(absl::Span<const int32_t> ids,
                                           absl::Span<const int32_t> slots, MatrixView x) {
  const auto width = static_cast<size_t>(x.cols);
  const auto copy_in = [&](const std::vector<float>& row, void* to) {
    backend_->CopyIn({reinterpret_cast<const std::byte*>(row.data()), width * sizeof(float)}, to);
  };
  for (size_t t = 0; t < slots.size(); ++t) {
    if (slots[t] < 0 || static_cast<size_t>(slots[t]) >= adapters_.size()) continue;
    const TableAdapter* const adapter = adapters_[slots[t]].get();
    if (adapter == nullptr) continue;
    const MatrixView row = x.Rows(static_cast<int64_t>(t), 1);
    if (adapter->source != nullptr) {
      copy_in(adapter->source->ReadSaved({TensorRole::kEmbedding}, {ids[t], ids[t] + 1}), row.data);
    }
    const LowRankFactors& factors = adapter->factors;
    if (factors.rank == 0) continue;
    if (addend_ == nullptr) {
      auto memory = backend_->Allocate(width * sizeof(float));
      if (!memory.ok()) return memory.status();
      addend_ = *std::move(memory);
    }
    std::vector<float> added(width);
    for (int r = 0; r < factors.rank; ++r) {
      const float weight = factors.b[static_cast<size_t>(ids[t]) * factors.rank + r];
      const float* const from = factors.a.data() + r * width;
      for (size_t h = 0; h < width; ++h) added[h] += weight * from[h];
    }
    copy_in(added, addend_->data());
    backend_->AddResidual({addend_->data(), DType::kF32, 1, x.cols, x.cols}, row);
  }
  return absl::OkStatus();
}

absl::Status EmbeddingTable::LoadSides(const ModelConfig& config, const WeightSource& source,
                                       WeightFormat wanted) {
  const TensorId table{TensorRole::kSideEmbedding}, projection{TensorRole::kSideProjection};
  auto loaded =
      LoadTable(source, table, ShapeOf(table, config), FormatOf(table, config, wanted), *backend_);
  if (!loaded.ok()) return loaded.status();
  side_memory_ = std::move(loaded->memory);
  side_table_ = loaded->table;
  const MatrixShape shape = ShapeOf(projection, config);
  const WeightFormat format = FormatOf(projection, config, wanted);
  auto packed = backend_->Pack(
      {.num_outputs = shape.rows, .num_inputs = shape.columns, .format = format},
      [&](int64_t begin, int64_t end, absl::Span<std::byte> rows) {
        return source.Read(projection, WholeOf(shape).Rows(begin, end), format, rows);
      });
  if (!packed.ok()) return packed.status();
  side_projection_ = *std::move(packed);
  const TensorId norm{TensorRole::kSideProjectionNorm};
  const auto weights = source.ReadFloats(norm, WholeOf(ShapeOf(norm, config)));
  if (!weights.ok()) return weights.status();
  auto memory = backend_->Allocate(weights->size() * sizeof(float));
  if (!memory.ok()) return memory.status();
  side_norm_ = *std::move(memory);
  backend_->CopyIn(
      {reinterpret_cast<const std::byte*>(weights->data()), weights->size() * sizeof(float)},
      side_norm_->data());
  return absl::OkStatus();
}

absl::Status EmbeddingTable::EmbedSides(absl::Span<const int32_t> ids, MatrixView x,
                                        MatrixView out) {
  const size_t bytes = ids.size() * out.cols * sizeof(float);
  if (side_projected_ == nullptr || side_projected_->size_bytes() < bytes) {
    auto memory = backend_->Allocate(bytes);
    if (!memory.ok()) return memory.status();
    side_projected_ = *std::move(memory);
    backend_->ReserveForGemm(*side_projection_, out.rows);
  }
  const int64_t width = static_cast<int64_t>(side_norm_->size_bytes() / sizeof(float));
  const MatrixView projected{side_projected_->data(), DType::kF32, out.rows, out.cols, out.cols};
  // Every layer's part of every row by itself.
  const MatrixView parts{projected.data, DType::kF32, out.rows * (out.cols / width), width, width};
  backend_->Gemm(x, *side_projection_, projected);
  backend_->Scale(1 / std::sqrt(static_cast<float>(x.cols)), projected);
  backend_->RmsNorm(parts, static_cast<const float*>(side_norm_->data()), norm_eps_, parts);
  backend_->GatherRows(side_table_, ids, out);
  backend_->Scale(std::sqrt(static_cast<float>(width)), out);
  backend_->AddResidual(projected, out);
  backend_->Scale(std::sqrt(0.5F), out);
  return absl::OkStatus();
}

void EmbeddingTable::UnpackRows(absl::Span<const int32_t> ids, MatrixView out) {
  const size_t row_bytes = RowBytes(packed_format_, out.cols);
  const auto width = static_cast<size_t>(out.cols);
  std::vector<float> rows(ids.size() * width);
  for (size_t t = 0; t < ids.size(); ++t) {
    DecodeRow(packed_format_,
              absl::MakeConstSpan(packed_rows_).subspan(ids[t] * row_bytes, row_bytes),
              absl::MakeSpan(rows).subspan(t * width, width));
  }
  const auto* bytes = reinterpret_cast<const std::byte*>(rows.data());
  if (out.stride == out.cols) {
    backend_->CopyIn({bytes, rows.size() * sizeof(float)}, out.data);
    return;
  }
  for (size_t t = 0; t < ids.size(); ++t) {
    backend_->CopyIn({bytes + t * width * sizeof(float), width * sizeof(float)},
                     out.Rows(static_cast<int64_t>(t), 1).data);
  }
}

absl::Status EmbeddingTable::AddPositions(const Side& side, absl::Span<const int32_t> positions,
                                          MatrixView out) {
  if (position_ == PositionKind::kLearned) {
    if (position_offset_ == 0) return AddRows(side.position_table, positions, out);
    std::vector<int32_t> rows(positions.begin(), positions.end());
    for (int32_t& row : rows) row += position_offset_;
    return AddRows(side.position_table, rows, out);
  }
  const absl::StatusOr<MatrixView> rows = RoomLike(out);
  if (!rows.ok()) return rows.status();
  ComputeSinusoids(positions, *rows);
  backend_->AddResidual(*rows, out);
  return absl::OkStatus();
}

// In double and rounded once.
void EmbeddingTable::ComputeSinusoids(absl::Span<const int32_t> positions, MatrixView rows) {
  std::vector<float> values(rows.rows * rows.cols);
  for (int64_t t = 0; t < rows.rows; ++t) {
    for (int64_t h = 0; h < rows.cols; ++h) {
      const int64_t half = (rows.cols + 1) / 2;
      const bool is_split = position_ == PositionKind::kSplitSinusoidal;
      const int64_t even = is_split ? h % half * 2 : h / 2 * 2;
      const bool is_sine = is_split ? h < half : h % 2 == 0;
      const double angle = positions[t] * std::pow(10000.0, -static_cast<double>(even) / rows.cols);
      values[t * rows.cols + h] = static_cast<float>(is_sine ? std::sin(angle) : std::cos(angle));
    }
  }
  backend_->CopyIn(
      {reinterpret_cast<const std::byte*>(values.data()), values.size() * sizeof(float)},
      rows.data);
}

}  // namespace sluice
