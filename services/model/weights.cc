#include "services/model/weights.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "kernels/check.h"
#include "services/model/model_families.h"
#include "services/model/published_fp8.h"
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

// Rows from one format to another, by way of their numbers. One of the two may be F32.
void Recode(WeightFormat from, absl::Span<const std::byte> in, WeightFormat to, int64_t columns,
            absl::Span<std::byte> out) {
  const size_t in_bytes = RowBytes(from, columns);
  const size_t out_bytes = RowBytes(to, columns);
  std::vector<float> row(static_cast<size_t>(columns));
  for (; !in.empty(); in.remove_prefix(in_bytes), out.remove_prefix(out_bytes)) {
    DecodeRow(from, in.first(in_bytes), absl::MakeSpan(row));
    EncodeRow(to, row, out.first(out_bytes));
  }
}

absl::Status Named(const std::string& folder, const TensorPlace& place,
                   const absl::Status& status) {
  return absl::Status(status.code(),
                      absl::StrCat(folder, ": tensor \"", place.name, "\" ", status.message()));
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
  TensorPlaces places(config, *family->names, *checkpoint);
  WeightSource source(config, std::move(places), *std::move(checkpoint), progress);
  if (absl::Status checked = source.CheckIdentity(); !checked.ok()) return checked;
  if (absl::Status checked = source.CheckTensors(); !checked.ok()) return checked;
  return source;
}

// That quantised weights and configuration were written together, and plain ones are none.
absl::Status WeightSource::CheckIdentity() const {
  const auto& quantization = config_.quantization;
  for (const SafetensorsFile& file : checkpoint_.files()) {
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
bool WeightSource::IsPublished(const TensorPlace& place) const {
  return config_.quantization.has_value() && config_.quantization->published && !place.transposed &&
         IsPublishedFp8(checkpoint_, place.name);
}

absl::Status WeightSource::CheckTensors() const {
  for (const TensorId tensor : AllTensors(config_)) {
    if (absl::Status found = CheckPlace(places_.Of(tensor)); !found.ok()) return found;
  }
  return absl::OkStatus();
}

absl::Status WeightSource::CheckPlace(const TensorPlace& place) const {
  if (place.rows_apart) {
    absl::Status found;
    for (int64_t row = 0; row < place.stored.rows; ++row) {
      found.Update(CheckPlace(place.Row(row)));
    }
    return found;
  }
  if (IsPublished(place)) return CheckPublishedFp8(checkpoint_, place.name, place.stored);
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
  const DType stored = StoredType(places_.Of({TensorRole::kQ, 0}));
  return stored == DType::kBF16 ? WeightFormat::kBF16 : WeightFormat::kF32;
}

absl::StatusOr<WeightFormat> WeightSource::ResolveQuantized(WeightFormat wanted) const {
  const auto& quantization = config_.quantization;
  if (!quantization.has_value() || quantization->format == wanted) return wanted;
  return absl::InvalidArgumentError(
      absl::StrCat(checkpoint_.folder(), ": holds weights as ", TypeName(quantization->format),
                   ", which are not quantized again as ", TypeName(wanted), "; accepted: auto, ",
                   TypeName(quantization->format), ", f32, bf16"));
}

DType WeightSource::StoredType(const TensorPlace& place) const {
  if (place.rows_apart) return StoredType(place.Row(0));
  if (IsPublished(place)) return DType::kF8E4M3;
  const auto stored = checkpoint_.Find(place.name, place.FileShape());
  SLUICE_CHECK(stored.ok());  // Open has found it
  return *stored->type.dtype;
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

absl::Status WeightSource::ReadPublished(const TensorPlace& place, const TensorSlice& stored,
                                         WeightFormat as, absl::Span<std::byte> out) const {
  absl::Status read = ReadPublishedFp8(checkpoint_, place.name, place.stored, stored, as, out);
  return read.ok() ? read : Named(checkpoint_.folder(), place, read);
}

absl::Status WeightSource::ReadRun(const TensorPlace& place, const TensorSlice& stored,
                                   WeightFormat as, absl::Span<std::byte> out) const {
  const int64_t columns = stored.columns.size();
  if (place.quantized == as) return ReadQuantized(place, stored, out);
  if (IsPublished(place)) return ReadPublished(place, stored, as, out);
  if (place.quantized.has_value()) {
    std::vector<std::byte> rows = RoomFor(*place.quantized, stored);
    absl::Status read = ReadQuantized(place, stored, absl::MakeSpan(rows));
    if (read.ok()) Recode(*place.quantized, rows, as, columns, out);
    return read;
  }
  if (!IsQuantized(as)) return ReadPlain(place, stored, PlainType(as), out);
  std::vector<std::byte> rows = RoomFor(WeightFormat::kF32, stored);
  absl::Status read = ReadPlain(place, stored, DType::kF32, absl::MakeSpan(rows));
  if (read.ok()) Recode(WeightFormat::kF32, rows, as, columns, out);
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

absl::Status WeightSource::Read(const TensorPlace& place, const TensorSlice& slice, WeightFormat as,
                                absl::Span<std::byte> out) const {
  SLUICE_CHECK(out.size() == BytesIn(as, slice));
  if (place.rows_apart) return ReadRowsApart(place, slice, as, out);
  absl::Status read = place.run == 1 && place.stride > 1 ? ReadSpread(place, slice, as, out)
                                                         : ReadRuns(place, slice, as, out);
  if (read.ok() && progress_ != nullptr) progress_->Add(BytesOf(place, slice));
  return read;
}

absl::Status WeightSource::ReadRuns(const TensorPlace& place, const TensorSlice& slice,
                                    WeightFormat as, absl::Span<std::byte> out) const {
  for (int64_t row = slice.rows.begin; row < slice.rows.end;) {
    const int64_t in_run = row % place.run;
    const int64_t count = std::min(place.run - in_run, slice.rows.end - row);
    const int64_t first = place.first_row + row / place.run * place.stride + in_run;
    const TensorSlice stored{
        {first, first + count},
        {slice.columns.begin + place.first_column, slice.columns.end + place.first_column}};
    const size_t bytes = BytesIn(as, stored);
    if (absl::Status read = ReadRun(place, stored, as, out.first(bytes)); !read.ok()) return read;
    out.remove_prefix(bytes);
    row += count;
  }
  return absl::OkStatus();
}

// Rows that alternate with others: all of them are read, and every other one is kept.
absl::Status WeightSource::ReadSpread(const TensorPlace& place, const TensorSlice& slice,
                                      WeightFormat as, absl::Span<std::byte> out) const {
  if (slice.rows.size() == 0) return absl::OkStatus();
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
  if (place.is_norm_weight && config_.norm_weight_offset != 0) {
    for (float& value : floats) value += config_.norm_weight_offset;
  }
  return floats;
}

uint64_t WeightSource::BytesOf(const TensorPlace& place, const TensorSlice& slice) const {
  if (place.quantized.has_value()) return BytesIn(*place.quantized, slice);
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
