#include "kernels/cuda/cuda_backend.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "kernels/check.h"
#include "kernels/cuda/sample_batch.h"

namespace sluice::cuda {
namespace {

template <class T>
absl::Span<const std::byte> BytesOf(absl::Span<const T> values) {
  return {reinterpret_cast<const std::byte*>(values.data()), values.size() * sizeof(T)};
}
template <class T>
absl::Span<std::byte> WritableBytes(absl::Span<T> values) {
  return {reinterpret_cast<std::byte*>(values.data()), values.size() * sizeof(T)};
}

// A row's order: larger first, ties by the lower column, NaN last.
struct Candidate {
  float value;
  int32_t column;

  bool operator<(const Candidate& other) const {
    const bool is_nan = value != value, other_is_nan = other.value != other.value;
    if (is_nan != other_is_nan) return other_is_nan;
    if (!is_nan && value != other.value) return value > other.value;
    return column < other.column;
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<CudaBackend>> CudaBackend::Create(std::unique_ptr<Gpu> gpu,
                                                                 CudaBackendOptions options) {
  absl::StatusOr<CudaDeviceParts> parts = CudaDeviceParts::Create(std::move(gpu));
  if (!parts.ok()) return parts.status();
  return std::unique_ptr<CudaBackend>(new CudaBackend(*std::move(parts), std::move(options)));
}

CudaBackend::CudaBackend(CudaDeviceParts parts, CudaBackendOptions options)
    : CudaDevice(std::move(parts), std::move(options)) {}

void CudaBackend::GatherRows(MatrixView table, absl::Span<const int32_t> rows, MatrixView out) {
  SLUICE_CHECK(static_cast<int64_t>(rows.size()) == out.rows && table.cols == out.cols);
  for (const int32_t row : rows) SLUICE_CHECK(0 <= row && row < table.rows);
  if (rows.empty()) return;
  const void* const on_device = Sent(BytesOf(rows));
  if (on_device == nullptr) return;
  kernels().gather_rows(
      stream(), {.table = table, .rows = static_cast<const int32_t*>(on_device), .out = out});
}

absl::Status CudaBackend::GatherElements(MatrixView x, absl::Span<const MatrixElement> elements,
                                         absl::Span<float> values) {
  SLUICE_CHECK(elements.size() == values.size());
  for (const MatrixElement& element : elements) {
    SLUICE_CHECK(0 <= element.row && element.row < x.rows);
    SLUICE_CHECK(0 <= element.col && element.col < x.cols);
  }
  const void* const on_device = Sent(BytesOf(elements));
  void* const results = Room(kResults, values.size() * sizeof(float));
  if (on_device == nullptr || results == nullptr) return Synchronize();
  kernels().gather_elements(stream(), {.x = x,
                                       .elements = static_cast<const MatrixElement*>(on_device),
                                       .count = static_cast<int64_t>(elements.size()),
                                       .values = static_cast<float*>(results)});
  return CopyOut(results, WritableBytes(values));
}

void CudaBackend::RmsNorm(MatrixView x, const float* weight, float eps, MatrixView out) {
  kernels().norm(stream(), {.x = x, .out = out, .width = x.cols, .weight = weight, .eps = eps});
}

void CudaBackend::LayerNorm(MatrixView x, const float* weight, const float* bias, float eps,
                            MatrixView out) {
  kernels().norm(stream(), {.x = x,
                            .out = out,
                            .width = x.cols,
                            .weight = weight,
                            .bias = bias,
                            .eps = eps,
                            .centred = true});
}

void CudaBackend::Scale(float factor, MatrixView x) {
  Elementwise({.kind = ElementwiseKind::kScale, .x = x, .factor = factor});
}

void CudaBackend::ScaleRows(const float* factors, MatrixView x) {
  // A column of factors; nothing writes it.
  const MatrixView column{const_cast<float*>(factors), DType::kF32, x.rows, 1, 1};
  Elementwise({.kind = ElementwiseKind::kScaleRows, .x = x, .operand = column});
}

void CudaBackend::SoftCap(float cap, MatrixView x) {
  SLUICE_CHECK(cap > 0);
  Elementwise({.kind = ElementwiseKind::kSoftCap, .x = x, .factor = cap});
}

// services/model/device_check.h refuses models that need these two.
void CudaBackend::SumSquares(MatrixView, int, MatrixView) { SLUICE_CHECK(false); }
void CudaBackend::RmsNormOfPart(MatrixView, MatrixView, int64_t, const float*, float) {
  SLUICE_CHECK(false);
}

void CudaBackend::AddResidual(MatrixView x, MatrixView residual) {
  SLUICE_CHECK(x.rows == residual.rows && x.cols == residual.cols);
  Elementwise({.kind = ElementwiseKind::kAdd, .x = residual, .operand = x});
}

void CudaBackend::TreeAdd(absl::Span<const MatrixView> partials, MatrixView out) {
  SLUICE_CHECK(std::has_single_bit(partials.size()) && partials.size() <= kMostPartials);
  TreeAddTask task{.count = static_cast<int>(partials.size()), .out = out};
  std::copy(partials.begin(), partials.end(), task.partials);
  kernels().tree_add(stream(), task);
}

void CudaBackend::TreeAddToResidual(absl::Span<const MatrixView> partials,
                                    const ResidualUpdate& update) {
  SLUICE_CHECK(std::has_single_bit(partials.size()) && partials.size() <= kMostSummedRanks);
  SumToResidualTask task{
      .count = static_cast<int>(partials.size()), .residual = update.residual, .bias = update.bias};
  std::copy(partials.begin(), partials.end(), task.partials);
  if (update.norm.has_value()) {
    task.normed = update.normed;
    task.norm_weight = update.norm->weight;
    task.norm_bias = update.norm->bias;
    task.eps = update.norm->eps;
    task.centred = update.norm->centred;
  }
  kernels().sum_to_residual(stream(), task);
}

void CudaBackend::LogSoftmax(MatrixView x, MatrixView out) {
  SLUICE_CHECK(x.rows == out.rows && x.cols == out.cols && x.cols > 0);
  const auto sums = static_cast<size_t>(x.rows * NumStretches(x.cols));
  void* const room = Room(kRows, sums * sizeof(ExponentialSum));
  if (room == nullptr) return;
  kernels().log_softmax(stream(), {.x = x, .out = out, .sums = static_cast<ExponentialSum*>(room)});
}

// ---- Operations that answer on the host ----

absl::Status CudaBackend::TopK(MatrixView x, int k, absl::Span<float> values,
                               absl::Span<int32_t> ids) {
  SLUICE_CHECK(1 <= k && k <= x.cols);
  SLUICE_CHECK(static_cast<int64_t>(values.size()) == x.rows * k && values.size() == ids.size());
  const size_t bytes = values.size() * sizeof(float);
  auto* const results = static_cast<std::byte*>(Room(kResults, 2 * bytes));
  if (results == nullptr) return Synchronize();
  kernels().top_k(stream(), {.x = x,
                             .k = k,
                             .values = reinterpret_cast<float*>(results),
                             .ids = reinterpret_cast<int32_t*>(results + bytes)});
  absl::Status status = CopyOut(results, WritableBytes(values));
  if (status.ok()) status = CopyOut(results + bytes, WritableBytes(ids));
  if (!status.ok()) return status;
  std::vector<Candidate> row(k);
  for (size_t begin = 0; begin < values.size(); begin += k) {
    for (int i = 0; i < k; ++i) row[i] = {values[begin + i], ids[begin + i]};
    std::sort(row.begin(), row.end());
    for (int i = 0; i < k; ++i) {
      values[begin + i] = row[i].value;
      ids[begin + i] = row[i].column;
    }
  }
  return status;
}

absl::Status CudaBackend::Sample(MatrixView logits, absl::Span<const SampleRow> rows,
                                 absl::Span<SampledRow> results) {
  SLUICE_CHECK(logits.rows == static_cast<int64_t>(rows.size()) && rows.size() == results.size());
  if (rows.empty()) return Synchronize();
  const SampleBatch batch = BatchOf(rows, logits.cols);
  // One array after another, each as aligned as doubles are.
  std::vector<std::byte> arguments;
  const auto append = [&arguments](absl::Span<const std::byte> bytes) {
    arguments.resize((arguments.size() + 15) / 16 * 16);
    const size_t begin = arguments.size();
    arguments.insert(arguments.end(), bytes.begin(), bytes.end());
    return begin;
  };
  append(BytesOf(absl::MakeConstSpan(batch.requests)));
  const size_t allowed = append(BytesOf(absl::MakeConstSpan(batch.allowed)));
  const size_t edits = append(BytesOf(absl::MakeConstSpan(batch.edits)));
  const auto* const sent = static_cast<const std::byte*>(Sent(arguments));
  const size_t results_bytes = rows.size() * sizeof(SampleResult);
  auto* const answers =
      static_cast<std::byte*>(Room(kResults, results_bytes + batch.num_top * sizeof(SampleToken)));
  const size_t scratch_bytes = rows.size() * SampleScratchBytes(logits.cols);
  const size_t stretches = rows.size() * NumStretches(logits.cols);
  auto* const scratch =
      static_cast<std::byte*>(Room(kRows, scratch_bytes + stretches * sizeof(SampleStretch)));
  if (sent == nullptr || answers == nullptr || scratch == nullptr) return Synchronize();
  kernels().sample(stream(),
                   {.logits = logits,
                    .requests = reinterpret_cast<const SampleRequest*>(sent),
                    .allowed = reinterpret_cast<const uint32_t*>(sent + allowed),
                    .edits = reinterpret_cast<const SampleEdit*>(sent + edits),
                    .results = reinterpret_cast<SampleResult*>(answers),
                    .top = reinterpret_cast<SampleToken*>(answers + results_bytes),
                    .stretches = reinterpret_cast<SampleStretch*>(scratch + scratch_bytes),
                    .scratch = reinterpret_cast<char*>(scratch),
                    .weighs_all = std::any_of(batch.requests.begin(), batch.requests.end(),
                                              [&](const SampleRequest& request) {
                                                return WeighsAllTokens(request, logits.cols);
                                              })});
  std::vector<std::byte> told(results_bytes + batch.num_top * sizeof(SampleToken));
  if (absl::Status status = CopyOut(answers, absl::MakeSpan(told)); !status.ok()) return status;
  std::vector<SampleResult> chosen(rows.size());
  std::vector<SampleToken> top(batch.num_top);
  std::memcpy(chosen.data(), told.data(), results_bytes);
  if (!top.empty())
    std::memcpy(top.data(), told.data() + results_bytes, told.size() - results_bytes);
  for (size_t t = 0; t < rows.size(); ++t) results[t] = RowOf(batch.requests[t], chosen[t], top);
  return absl::OkStatus();
}

}  // namespace sluice::cuda
