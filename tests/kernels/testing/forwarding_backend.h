// A backend that hands everything on to another, for tests that spoil a part of it.
#pragma once

#include <memory>
#include <utility>

#include "kernels/backend.h"

namespace sluice::testing {

class ForwardingBackend : public Backend {
 public:
  explicit ForwardingBackend(std::unique_ptr<Backend> within) : within_(std::move(within)) {}

  std::string_view name() const override { return within_->name(); }
  DType operand_dtype() const override { return within_->operand_dtype(); }
  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(size_t size_bytes) override {
    return within_->Allocate(size_bytes);
  }
  void CopyIn(absl::Span<const std::byte> host, void* device) override {
    within_->CopyIn(host, device);
  }
  absl::Status CopyOut(const void* device, absl::Span<std::byte> host) override {
    return within_->CopyOut(device, host);
  }
  absl::Status Synchronize(Deadline deadline) override { return within_->Synchronize(deadline); }
  int num_host_threads() const override { return within_->num_host_threads(); }
  void RunOnHost(int64_t count, HostTask task) override { within_->RunOnHost(count, task); }
  absl::StatusOr<std::unique_ptr<PackedMatrix>> Pack(const PackSpec& spec,
                                                     const RowReader& read) override {
    return within_->Pack(spec, read);
  }
  absl::StatusOr<std::unique_ptr<KvPool>> NewKvPool(const KvPoolSpec& spec) override {
    return within_->NewKvPool(spec);
  }
  void ReserveForGemm(const PackedMatrix& weights, int64_t max_rows) override {
    within_->ReserveForGemm(weights, max_rows);
  }
  void ReserveForAttention(const KvPool& pool, int64_t max_rows) override {
    within_->ReserveForAttention(pool, max_rows);
  }
  absl::StatusOr<std::unique_ptr<RankGroup>> NewRankGroup(const RankGroupSpec& spec) override {
    return within_->NewRankGroup(spec);
  }
  int64_t BucketRows(int64_t rows) const override { return within_->BucketRows(rows); }
  void BeginStep(absl::Span<const AttentionSegment> segments, int64_t rows) override {
    within_->BeginStep(segments, rows);
  }
  absl::Status RunStep(const StepKey& key, absl::FunctionRef<absl::Status()> enqueue) override {
    return within_->RunStep(key, enqueue);
  }
  void EmbeddingGather(MatrixView table, absl::Span<const int32_t> ids, MatrixView out) override {
    within_->EmbeddingGather(table, ids, out);
  }
  void RmsNorm(MatrixView x, const float* weight, float eps, MatrixView out) override {
    within_->RmsNorm(x, weight, eps, out);
  }
  void HeadRmsNorm(MatrixView x, int head_dim, const float* weight, float eps) override {
    within_->HeadRmsNorm(x, head_dim, weight, eps);
  }
  void LayerNorm(MatrixView x, const float* weight, const float* bias, float eps,
                 MatrixView out) override {
    within_->LayerNorm(x, weight, bias, eps, out);
  }
  void Gemm(MatrixView x, const PackedMatrix& weights, MatrixView out,
            const GemmEpilogue& epilogue) override {
    within_->Gemm(x, weights, out, epilogue);
  }
  void Rope(MatrixView x, int head_dim, const RopeTables& tables, RopeLayout layout) override {
    within_->Rope(x, head_dim, tables, layout);
  }
  void StoreKv(MatrixView keys, MatrixView values, int layer, KvPool& pool) override {
    within_->StoreKv(keys, values, layer, pool);
  }
  void CopyBlocks(absl::Span<const KvBlockCopy> copies, KvPool& pool) override {
    within_->CopyBlocks(copies, pool);
  }
  void PagedAttention(MatrixView q, const KvPool& pool, int layer, const AttentionOptions& options,
                      MatrixView out) override {
    within_->PagedAttention(q, pool, layer, options, out);
  }
  void AddBias(const float* bias, MatrixView x) override { within_->AddBias(bias, x); }
  void Scale(float factor, MatrixView x) override { within_->Scale(factor, x); }
  void AddResidual(MatrixView x, MatrixView residual) override {
    within_->AddResidual(x, residual);
  }
  void TreeAdd(absl::Span<const MatrixView> partials, MatrixView out) override {
    within_->TreeAdd(partials, out);
  }
  void LogSoftmax(MatrixView x, MatrixView out) override { within_->LogSoftmax(x, out); }
  absl::Status TopK(MatrixView x, int k, absl::Span<float> values,
                    absl::Span<int32_t> ids) override {
    return within_->TopK(x, k, values, ids);
  }

 private:
  const std::unique_ptr<Backend> within_;
};

}  // namespace sluice::testing
