#include "kernels/observed/forwarding_backend.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

namespace sluice {
namespace {

// Rows to sample with options, masks and edits of their own.
struct OwnedSampleRows {
  explicit OwnedSampleRows(absl::Span<const SampleRow> from) : rows(CopyOf(from)) {
    for (SampleRow& row : rows) {
      row.options = options.emplace_back(std::make_unique<SamplingOptions>(*row.options)).get();
      row.allowed = allowed.emplace_back(CopyOf(row.allowed));
      row.edits = edits.emplace_back(CopyOf(row.edits));
    }
  }

  std::vector<SampleRow> rows;
  std::vector<std::unique_ptr<SamplingOptions>> options;
  std::vector<std::vector<uint32_t>> allowed;
  std::vector<std::vector<LogitEdit>> edits;
};

}  // namespace

void ForwardingBackend::GatherRows(MatrixView table, absl::Span<const int32_t> rows,
                                   MatrixView out) {
  Forward([=, this, rows = CopyOf(rows)] { within().GatherRows(table, rows, out); });
}

absl::Status ForwardingBackend::GatherElements(MatrixView x,
                                               absl::Span<const MatrixElement> elements,
                                               absl::Span<float> values) {
  const auto staged = Staged(values);
  absl::Status status = Await([=, this, elements = CopyOf(elements)] {
    return within().GatherElements(x, elements, absl::MakeSpan(*staged));
  });
  if (status.ok()) std::copy(staged->begin(), staged->end(), values.begin());
  return status;
}

void ForwardingBackend::RmsNorm(MatrixView x, const float* weight, float eps, MatrixView out) {
  Forward([=, this] { within().RmsNorm(x, weight, eps, out); });
}

void ForwardingBackend::LayerNorm(MatrixView x, const float* weight, const float* bias, float eps,
                                  MatrixView out) {
  Forward([=, this] { within().LayerNorm(x, weight, bias, eps, out); });
}

void ForwardingBackend::Gemm(MatrixView x, const PackedMatrix& weights, MatrixView out,
                             const GemmEpilogue& epilogue) {
  Forward([=, this, &weights] { within().Gemm(x, weights, out, epilogue); });
}

void ForwardingBackend::ApplyQkNormRopeAndStoreKv(MatrixView qkv, const QkNormRopeParams& params,
                                                  int layer, KvPool& pool) {
  const RopeTables rotations = params.rotations == nullptr ? RopeTables{} : *params.rotations;
  Forward([=, this, &pool] {
    QkNormRopeParams owned = params;
    if (owned.rotations != nullptr) owned.rotations = &rotations;
    within().ApplyQkNormRopeAndStoreKv(qkv, owned, layer, pool);
  });
}

void ForwardingBackend::CopyBlocks(absl::Span<const KvBlockCopy> copies, KvPool& pool) {
  Forward([this, copies = CopyOf(copies), &pool] { within().CopyBlocks(copies, pool); });
}

void ForwardingBackend::PagedAttention(MatrixView q, const KvPool& pool, int layer,
                                       const AttentionOptions& options, MatrixView out) {
  Forward([=, this, &pool] { within().PagedAttention(q, pool, layer, options, out); });
}

void ForwardingBackend::Scale(float factor, MatrixView x) {
  Forward([=, this] { within().Scale(factor, x); });
}

void ForwardingBackend::ScaleRows(const float* factors, MatrixView x) {
  Forward([=, this] { within().ScaleRows(factors, x); });
}

void ForwardingBackend::SoftCap(float cap, MatrixView x) {
  Forward([=, this] { within().SoftCap(cap, x); });
}

void ForwardingBackend::SumSquares(MatrixView x, int num_slices, MatrixView out) {
  Forward([=, this] { within().SumSquares(x, num_slices, out); });
}

void ForwardingBackend::RmsNormOfPart(MatrixView x, MatrixView squares, int64_t count,
                                      const float* weight, float eps) {
  Forward([=, this] { within().RmsNormOfPart(x, squares, count, weight, eps); });
}

void ForwardingBackend::AddResidual(MatrixView x, MatrixView residual) {
  Forward([=, this] { within().AddResidual(x, residual); });
}

void ForwardingBackend::TreeAdd(absl::Span<const MatrixView> partials, MatrixView out) {
  Forward([=, this, partials = CopyOf(partials)] { within().TreeAdd(partials, out); });
}

void ForwardingBackend::TreeAddToResidual(absl::Span<const MatrixView> partials,
                                          const ResidualUpdate& update) {
  Forward([=, this, partials = CopyOf(partials)] { within().TreeAddToResidual(partials, update); });
}

void ForwardingBackend::LogSoftmax(MatrixView x, MatrixView out) {
  Forward([=, this] { within().LogSoftmax(x, out); });
}

absl::Status ForwardingBackend::TopK(MatrixView x, int k, absl::Span<float> values,
                                     absl::Span<int32_t> ids) {
  const auto staged_values = Staged(values);
  const auto staged_ids = Staged(ids);
  absl::Status status = Await([=, this] {
    return within().TopK(x, k, absl::MakeSpan(*staged_values), absl::MakeSpan(*staged_ids));
  });
  if (!status.ok()) return status;
  std::copy(staged_values->begin(), staged_values->end(), values.begin());
  std::copy(staged_ids->begin(), staged_ids->end(), ids.begin());
  return status;
}

absl::Status ForwardingBackend::Sample(MatrixView logits, absl::Span<const SampleRow> rows,
                                       absl::Span<SampledRow> results) {
  const auto staged = Staged(results);
  absl::Status status = Await([=, this, owned = std::make_shared<OwnedSampleRows>(rows)] {
    return within().Sample(logits, owned->rows, absl::MakeSpan(*staged));
  });
  if (status.ok()) std::move(staged->begin(), staged->end(), results.begin());
  return status;
}

}  // namespace sluice
