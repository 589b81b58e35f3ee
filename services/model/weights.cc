#include "services/model/weights.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/check.h"
#include "services/model/gguf_names.h"
#include "services/model/model_families.h"
#include "services/model/published_fp8.h"
#include "services/model/published_model.h"
#include "services/model/quantization_fields.h"
#include "services/model/quantized_tensor.h"
#include "services/model/tensor_layout.h"

namespace sluice {
namespace {

DType PlainType(WeightFormat format) {
  return format == WeightFormat::kF32 ? DType::kF32 : DType::kBF16;
}

size_t BytesIn(WeightFormat format, const TensorSlice& slice) {
  return static_cast<size_t>(slice.rows.size()) * RowBytes(format, slice.columns.size());
}

std::vector<std::byte> RoomFor(WeightFormat format, const TensorSlice& slice) {
  return std::vector<std::byte>(BytesIn(format, slice));
}

MatrixPart MatrixPartOf(const TensorSlice& slice) {
  return {.first_row = slice.rows.begin,
          .rows = slice.rows.size(),
          .first_column = slice.columns.begin,
          .columns = slice.columns.size()};
}

absl::Status Named(const std::string& folder, const TensorPlace& place,
                   const absl::Status& status) {
  return absl::Status(status.code(),
                      absl::StrCat(folder, ": tensor \"", place.name, "\" ", status.message()));
}

// The query projection of the first layer or what stands for it.
TensorId FirstProjection(const ModelConfig& config) {
  for (const TensorRole role : {TensorRole::kQ, TensorRole::kQA, TensorRole::kRecurrentV}) {
    if (HasTensor({role, 0}, config)) return {role, 0};
  }
  return {TensorRole::kUp, 0};
}

}  // namespace

WeightSource::WeightSource(const ModelConfig& config, TensorPlaces places, Checkpoint checkpoint,
                           Progress* progress)
    : config_(config),
      places_(std::move(places)),
      checkpoint_(std::move(checkpoint)),
      progress_(progress) {}

absl::StatusOr<WeightSource> WeightSource::Open(const std::string& folder,
                                                const ModelConfig& config, Progress* progress) {
  auto checkpoint = Checkpoint::Open(folder);
  if (!checkpoint.ok()) return checkpoint.status();
  const ModelFamily* family = FindModelFamily(config.model_type);
  SLUICE_CHECK(family != nullptr);  // or the configuration would not have loaded
  const TensorNames names =
      checkpoint->is_gguf() ? GgufTensorNames(config, *checkpoint) : *family->names;
  TensorPlaces places(config, names, *checkpoint);
  WeightSource source(config, std::move(places), *std::move(checkpoint), progress);
  if (absl::Status checked = source.CheckIdentity(); !checked.ok()) return checked;
  if (absl::Status checked = source.CheckTensors(); !checked.ok()) return checked;
  return source;
}

// That quantised weights and configuration were written together, and plain ones are none.
absl::Status WeightSource::CheckIdentity() const {
  const auto& quantization = config_.quantization;
  for (const TensorFile& file : checkpoint_.files()) {
    const auto& metadata = file.contents().metadata;
    const auto found = metadata.find(kCheckpointIdKey);
    if (found == metadata.end()) {
      if (!quantization.has_value() || quantization->published) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(file.path(),
                       ": holds no weights that `sluice quantize` wrote, but config.json has a "
                       "quantization_config"));
    }
    if (!quantization.has_value() || quantization->published) {
      return absl::InvalidArgumentError(
          absl::StrCat(file.path(),
                       ": holds weights that `sluice quantize` wrote, but config.json has no "
                       "quantization_config of it"));
    }
    if (found->second == quantization->checkpoint_id) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(file.path(), ": holds weights of another model: its ", kCheckpointIdKey,
                     " is ", absl::Utf8SafeCHexEscape(found->second),
                     "; accepted: ", quantization->checkpoint_id, ", as config.json has it"));
  }
  return absl::OkStatus();
}

// Whether what is there is FP8 as others write it.
bool WeightSource::IsPublishedFp8(const TensorPlace& place) const {
  return config_.quantization.has_value() && config_.quantization->published && !place.transposed &&
         config_.quantization->scheme.layout == PublishedLayout::kFp8 &&
         sluice::IsPublishedFp8(checkpoint_, place.name);
}

const PublishedMatrix* WeightSource::PublishedAt(const TensorPlace& place) const {
  const auto found = published_.find(place.name);
  return found == published_.end() ? nullptr : found->second.get();
}

// REQUIRES: IsPublishedFp8().
MatrixShape WeightSource::Fp8Block() const {
  return {config_.quantization->scheme.block_rows, config_.quantization->scheme.block_columns};
}

// Opens the matrix, if others quantised it.
absl::Status WeightSource::OpenPublished(const TensorPlace& place) {
  const auto& quantization = config_.quantization;
  if (!quantization.has_value() || !quantization->published) return absl::OkStatus();
  if (PublishedAt(place) != nullptr) return absl::OkStatus();
  auto matrix = OpenPublishedAt(checkpoint_, place, quantization->scheme);
  if (!matrix.ok()) return matrix.status();
  if (*matrix == nullptr) return absl::OkStatus();
  stores_by_input_ = stores_by_input_ || (*matrix)->IsStoredByInput();
  published_.emplace(place.name, *std::move(matrix));
  return absl::OkStatus();
}

absl::Status WeightSource::CheckTensors() {
  for (const TensorId tensor : AllTensors(config_)) {
    const TensorPlace place = places_.Of(tensor);
    if (absl::Status opened = OpenPublished(place); !opened.ok()) return opened;
    if (absl::Status found = CheckPlace(place); !found.ok()) return found;
  }
  return absl::OkStatus();
}

absl::Status WeightSource::CheckPieces(const TensorPlace& place) const {
  absl::Status found;
  for (const TensorPlace& piece : place.pieces) found.Update(CheckPlace(piece));
  return found;
}

absl::Status WeightSource::CheckPlace(const TensorPlace& place) const {
  if (!place.pieces.empty()) return CheckPieces(place);
  if (place.rows_apart) {
    absl::Status found;
    for (int64_t row = 0; row < place.stored.rows; ++row) {
      found.Update(CheckPlace(place.Row(row)));
    }
    return found;
  }
  if (PublishedAt(place) != nullptr) return absl::OkStatus();
  if (IsPublishedFp8(place)) {
    return CheckPublishedFp8(checkpoint_, place.name, place.stored, Fp8Block());
  }
  if (!place.quantized.has_value()) {
    return checkpoint_.Find(place.name, place.FileShape()).status();
  }
  const WeightFormat format = *place.quantized;
  absl::Status found =
      checkpoint_.FindOfType(place.name, QuotientShape(format, place.stored), QuotientType(format))
          .status();
  if (!found.ok()) return found;
  return checkpoint_
      .FindOfType(place.name + kScaleSuffix, ScaleShape(format, place.stored), kScaleType)
      .status();
}

absl::StatusOr<WeightFormat> WeightSource::Resolve(WeightType type) const {
  if (type.format.has_value()) {
    const WeightFormat wanted = type.format->weights;
    return IsQuantized(wanted) ? ResolveQuantized(wanted) : wanted;
  }
  const auto& quantization = config_.quantization;
  if (quantization.has_value()) return quantization->format;
  const TensorPlace query = places_.Of(FirstProjection(config_));
  // The nearest format that holds their numbers exactly.
  if (StoredTensorAt(query).type.is_in_blocks()) return WeightFormat::kF32;
  const DType stored = StoredType(query);
  return stored == DType::kBF16 ? WeightFormat::kBF16 : WeightFormat::kF32;
}

absl::StatusOr<WeightFormat> WeightSource::ResolveQuantized(WeightFormat wanted) const {
  const auto& quantization = config_.quantization;
  if (!quantization.has_value() || quantization->format == wanted) return wanted;
  if (quantization->scheme.layout == PublishedLayout::kGguf) return wanted;
  return absl::InvalidArgumentError(absl::StrCat(
      checkpoint_.folder(), ": holds weights as ", TypeName(quantization->format),
      ", which are not quantized again as ", TypeName(wanted), "; accepted: auto, ",
      TraitsOf(quantization->format).is_selectable && quantization->format != WeightFormat::kF32
          ? absl::StrCat(TypeName(quantization->format), ", ")
          : "",
      "f32, bf16"));
}

std::string WeightSource::BlockFormats() const {
  if (!checkpoint_.is_gguf()) return "";
  std::set<std::string> names;
  for (const TensorId tensor : AllTensors(config_)) {
    const ::sluice::StoredType& type = StoredTensorAt(places_.Of(tensor)).type;
    if (type.is_in_blocks()) names.insert(type.name);
  }
  return absl::StrJoin(names, ", ");
}

std::string WeightSource::KeptBlocks(WeightFormat wanted) const {
  std::set<std::string> kept;
  for (const TensorId tensor : AllTensors(config_)) {
    const ::sluice::StoredType& type = StoredTensorAt(places_.Of(tensor)).type;
    if (!type.is_in_blocks()) continue;
    kept.insert(absl::StrCat(type.name, " as ", TypeName(FormatOf(tensor, config_, wanted))));
  }
  return absl::StrJoin(kept, ", ");
}

const StoredTensor& WeightSource::StoredTensorAt(const TensorPlace& place) const {
  const StoredTensor* stored = checkpoint_.Peek(place.rows_apart ? place.Row(0).name : place.name);
  SLUICE_CHECK(stored != nullptr);  // Open has found it
  return *stored;
}

DType WeightSource::StoredType(const TensorPlace& place) const {
  if (place.rows_apart) return StoredType(place.Row(0));
  if (IsPublishedFp8(place)) return DType::kF8E4M3;
  if (PublishedAt(place) != nullptr) return DType::kF32;
  return StoredTensorAt(place).type.dtype.value_or(DType::kF32);
}

absl::Status WeightSource::ReadPlain(const TensorPlace& place, const TensorSlice& stored, DType as,
                                     absl::Span<std::byte> out) const {
  if (!place.transposed) return checkpoint_.Read(place.name, place.FileShape(), stored, as, out);
  std::vector<std::byte> turned(out.size());
  const TensorSlice slice{stored.columns, stored.rows};
  absl::Status read =
      checkpoint_.Read(place.name, place.FileShape(), slice, as, absl::MakeSpan(turned));
  if (read.ok()) Transpose(turned, {slice.rows.size(), slice.columns.size()}, SizeOf(as), out);
  return read;
}

// In the format of the file.
absl::Status WeightSource::ReadQuantized(const TensorPlace& place, const TensorSlice& stored,
                                         absl::Span<std::byte> out) const {
  const WeightFormat format = *place.quantized;
  const TensorSlice quotient_slice = QuotientSlice(format, stored);
  const TensorSlice scale_slice = ScaleSlice(format, stored);
  std::vector<std::byte> quotients(static_cast<size_t>(quotient_slice.size()));
  std::vector<std::byte> scales(out.size() - quotients.size());
  absl::Status status =
      checkpoint_.Copy(place.name, QuotientShape(format, place.stored), QuotientType(format),
                       quotient_slice, absl::MakeSpan(quotients));
  if (!status.ok()) return status;
  status = checkpoint_.Copy(place.name + kScaleSuffix, ScaleShape(format, place.stored), kScaleType,
                            scale_slice, absl::MakeSpan(scales));
  if (!status.ok()) return status;
  status = JoinGroups(format, quotients, scales, out);
  return status.ok() ? status : Named(checkpoint_.folder(), place, status);
}

absl::Status WeightSource::ReadFp8(const TensorPlace& place, const TensorSlice& stored,
                                   WeightFormat as, absl::Span<std::byte> out) const {
  absl::Status read =
      ReadPublishedFp8(checkpoint_, place.name, place.stored, Fp8Block(), stored, as, out);
  return read.ok() ? read : Named(checkpoint_.folder(), place, read);
}

absl::Status WeightSource::ReadPublished(const PublishedMatrix& matrix, const MatrixPart& part,
                                         WeightFormat as, absl::Span<std::byte> out) const {
  absl::Status read;
  if (matrix.IsReadableAs(as)) {
    read = matrix.ReadRows(part, as, out);
  } else {
    std::vector<float> weights(static_cast<size_t>(part.rows * part.columns));
    read = matrix.Read(part, absl::MakeSpan(weights));
    const auto* bytes = reinterpret_cast<const std::byte*>(weights.data());
    if (read.ok()) {
      RecodeRows(WeightFormat::kF32, {bytes, weights.size() * sizeof(float)}, as, part.columns,
                 out);
    }
  }
  for (const absl::Span<const std::byte> bytes : matrix.BytesOf(part)) checkpoint_.Release(bytes);
  return read;
}

absl::Status WeightSource::ReadRun(const TensorPlace& place, const TensorSlice& stored,
                                   WeightFormat as, absl::Span<std::byte> out) const {
  const int64_t columns = stored.columns.size();
  if (place.quantized == as) return ReadQuantized(place, stored, out);
  if (IsPublishedFp8(place)) return ReadFp8(place, stored, as, out);
  if (const PublishedMatrix* matrix = PublishedAt(place); matrix != nullptr) {
    return ReadPublished(*matrix, MatrixPartOf(stored), as, out);
  }
  if (place.quantized.has_value()) {
    std::vector<std::byte> rows = RoomFor(*place.quantized, stored);
    absl::Status read = ReadQuantized(place, stored, absl::MakeSpan(rows));
    if (read.ok()) RecodeRows(*place.quantized, rows, as, columns, out);
    return read;
  }
  if (!IsQuantized(as)) return ReadPlain(place, stored, PlainType(as), out);
  std::vector<std::byte> rows = RoomFor(WeightFormat::kF32, stored);
  absl::Status read = ReadPlain(place, stored, DType::kF32, absl::MakeSpan(rows));
  if (read.ok()) RecodeRows(WeightFormat::kF32, rows, as, columns, out);
  return read;
}

absl::Status WeightSource::ReadRowsApart(const TensorPlace& place, const TensorSlice& slice,
                                         WeightFormat as, absl::Span<std::byte> out) const {
  const size_t row_bytes = RowBytes(as, slice.columns.size());
  for (int64_t row = slice.rows.begin; row < slice.rows.end; ++row) {
    const TensorSlice of_row{slice.columns, {0, 1}};
    absl::Status read = Read(place.Row(row), of_row, as, out.first(row_bytes));
    if (!read.ok()) return read;
    out.remove_prefix(row_bytes);
  }
  return absl::OkStatus();
}

absl::Status WeightSource::ReadPieces(const TensorPlace& place, const TensorSlice& slice,
                                      WeightFormat as, absl::Span<std::byte> out) const {
  int64_t first = 0;  // of the piece's rows
  for (const TensorPlace& piece : place.pieces) {
    const IndexRange rows{std::max(slice.rows.begin, first),
                          std::min(slice.rows.end, first + piece.run)};
    if (rows.begin < rows.end) {
      const TensorSlice part{{rows.begin - first, rows.end - first}, slice.columns};
      const size_t bytes = BytesIn(as, part);
      if (absl::Status read = Read(piece, part, as, out.first(bytes)); !read.ok()) return read;
      out.remove_prefix(bytes);
    }
    first += piece.run;
  }
  return absl::OkStatus();
}

absl::Status WeightSource::Read(const TensorPlace& place, const TensorSlice& slice, WeightFormat as,
                                absl::Span<std::byte> out) const {
  SLUICE_CHECK(out.size() == BytesIn(as, slice));
  if (place.rows_apart) return ReadRowsApart(place, slice, as, out);
  if (!place.pieces.empty()) return ReadPieces(place, slice, as, out);
  if (!place.column_tiles.empty()) return ReadTiledColumns(place, slice, as, out);
  absl::Status read = place.run == 1 && place.stride > 1 ? ReadSpread(place, slice, as, out)
                                                         : ReadRuns(place, slice, as, out);
  if (read.ok() && progress_ != nullptr) progress_->Add(BytesOf(place, slice));
  return read;
}

// Run by run. Where a run does not hold whole groups of the format, by way of F32.
absl::Status WeightSource::ReadTiledColumns(const TensorPlace& place, const TensorSlice& slice,
                                            WeightFormat as, absl::Span<std::byte> out) const {
  const Tiles& tiles = place.column_tiles;
  if (tiles.size % TraitsOf(as).group != 0) {
    std::vector<std::byte> rows = RoomFor(WeightFormat::kF32, slice);
    absl::Status read = ReadTiledColumns(place, slice, WeightFormat::kF32, absl::MakeSpan(rows));
    if (read.ok()) RecodeRows(WeightFormat::kF32, rows, as, slice.columns.size(), out);
    return read;
  }
  TensorPlace plain = place;
  plain.column_tiles = {};
  const size_t row_bytes = RowBytes(as, slice.columns.size());
  size_t done = 0;  // bytes of a row
  for (int64_t column = slice.columns.begin; column < slice.columns.end;) {
    const int64_t in_tile = column % tiles.size;
    const int64_t size = std::min(tiles.size - in_tile, slice.columns.end - column);
    const int64_t stored = tiles.StoredRun(column / tiles.size) * tiles.size + in_tile;
    const TensorSlice part{slice.rows, {stored, stored + size}};
    std::vector<std::byte> rows = RoomFor(as, part);
    if (absl::Status read = Read(plain, part, as, absl::MakeSpan(rows)); !read.ok()) return read;
    const size_t part_bytes = RowBytes(as, size);
    for (int64_t row = 0; row < slice.rows.size(); ++row) {
      std::copy_n(rows.data() + row * part_bytes, part_bytes, out.data() + row * row_bytes + done);
    }
    done += part_bytes;
    column += size;
  }
  return absl::OkStatus();
}

absl::Status WeightSource::ReadRuns(const TensorPlace& place, const TensorSlice& slice,
                                    WeightFormat as, absl::Span<std::byte> out) const {
  for (int64_t row = slice.rows.begin; row < slice.rows.end;) {
    const TensorSlice stored{
        place.StoredRows(row, slice.rows.end - row),
        {slice.columns.begin + place.first_column, slice.columns.end + place.first_column}};
    const size_t bytes = BytesIn(as, stored);
    if (absl::Status read = ReadRun(place, stored, as, out.first(bytes)); !read.ok()) return read;
    out.remove_prefix(bytes);
    row += stored.rows.size();
  }
  return absl::OkStatus();
}

// Rows that alternate with others: all of them are read, and every other one is kept, unless the
// layout can read these alone.
absl::Status WeightSource::ReadSpread(const TensorPlace& place, const TensorSlice& slice,
                                      WeightFormat as, absl::Span<std::byte> out) const {
  if (slice.rows.size() == 0) return absl::OkStatus();
  if (const PublishedMatrix* matrix = PublishedAt(place); matrix != nullptr) {
    MatrixPart part = MatrixPartOf(slice);
    part.first_row = place.first_row + slice.rows.begin * place.stride;
    part.row_step = place.stride;
    return ReadPublished(*matrix, part, as, out);
  }
  TensorPlace all = place;
  all.first_row = place.first_row + slice.rows.begin * place.stride;
  all.run = all.stride = place.stored.rows;
  const TensorSlice rows{{0, (slice.rows.size() - 1) * place.stride + 1}, slice.columns};
  std::vector<std::byte> read = RoomFor(as, rows);
  absl::Status status = ReadRuns(all, rows, as, absl::MakeSpan(read));
  if (!status.ok()) return status;
  const size_t row_bytes = RowBytes(as, slice.columns.size());
  for (int64_t row = 0; row < slice.rows.size(); ++row) {
    std::copy_n(read.data() + row * place.stride * row_bytes, row_bytes,
                out.data() + row * row_bytes);
  }
  return absl::OkStatus();
}

absl::Status WeightSource::Read(TensorId tensor, const TensorSlice& slice, WeightFormat as,
                                absl::Span<std::byte> out) const {
  return Read(places_.Of(tensor), slice, as, out);
}

absl::StatusOr<std::vector<float>> WeightSource::ReadFloats(TensorId tensor,
                                                            const TensorSlice& slice) const {
  const TensorPlace place = places_.Of(tensor);
  std::vector<float> floats(static_cast<size_t>(slice.size()));
  const auto bytes =
      absl::MakeSpan(reinterpret_cast<std::byte*>(floats.data()), floats.size() * sizeof(float));
  if (absl::Status read = Read(place, slice, WeightFormat::kF32, bytes); !read.ok()) return read;
  if (place.is_negative_rate) {
    for (float& value : floats) {
      if (!(value < 0)) {
        return Named(checkpoint_.folder(), place,
                     absl::InvalidArgumentError(
                         absl::StrCat("has a rate of ", value, "; accepted: numbers below 0")));
      }
      value = std::log(-value);
    }
  }
  if (place.is_norm_weight && config_.norm_weight_offset != 0) {
    for (float& value : floats) value += config_.norm_weight_offset;
  }
  return floats;
}

uint64_t WeightSource::BytesOf(const TensorPlace& place, const TensorSlice& slice) const {
  if (place.quantized.has_value()) return BytesIn(*place.quantized, slice);
  if (const PublishedMatrix* matrix = PublishedAt(place); matrix != nullptr) {
    return matrix->num_bytes() * static_cast<uint64_t>(slice.size()) /
           static_cast<uint64_t>(place.stored.size());
  }
  const ::sluice::StoredType& type = StoredTensorAt(place).type;
  if (type.is_in_blocks()) return type.BytesOf(static_cast<uint64_t>(slice.size()));
  return static_cast<uint64_t>(slice.size()) * SizeOf(StoredType(place));
}

uint64_t WeightSource::BytesOf(const ShardPlan& plan) const {
  uint64_t bytes = 0;
  for (auto layer = static_cast<int>(plan.layers.begin); layer < plan.layers.end; ++layer) {
    for (const TensorId tensor : TensorsOfLayer(layer, config_)) {
      bytes += BytesOf(places_.Of(tensor), SliceOf(tensor, config_, plan));
    }
  }
  return bytes;
}

uint64_t WeightSource::BytesOf(TensorId tensor) const {
  return BytesOf(places_.Of(tensor), WholeOf(ShapeOf(tensor, config_)));
}

}  // namespace sluice
