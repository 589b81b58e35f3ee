#include "kernels/observed/observed_backend.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/check.h"
#include "kernels/host_step.h"
#include "kernels/latent_ops.h"
#include "kernels/observed/forwarding_backend.h"
#include "kernels/reference/reference_attention.h"
#include "kernels/reference/reference_backend.h"

namespace sluice {
namespace {

// A pool of the backend within, and its keys and values in plain sight.
class ObservedKvPool final : public KvPool {
 public:
  ObservedKvPool(std::unique_ptr<KvPool> within, KvPoolSpec spec)
      : within_(std::move(within)), seen_(AsF32(spec)) {}

  size_t size_bytes() const override { return within_->size_bytes() + seen_.size_bytes(); }
  KvPool& within() { return *within_; }
  const KvPool& within() const { return *within_; }
  ReferenceKvPool& seen() { return seen_; }
  const ReferenceKvPool& seen() const { return seen_; }

 private:
  static KvPoolSpec AsF32(KvPoolSpec spec) {
    spec.dtype = DType::kF32;
    return spec;
  }

  const std::unique_ptr<KvPool> within_;
  ReferenceKvPool seen_;
};

// A matrix with memory of its own.
class OwnMatrix {
 public:
  OwnMatrix(int64_t rows, int64_t cols) : elements_(rows * cols), rows_(rows), cols_(cols) {}
  explicit OwnMatrix(MatrixView from) : OwnMatrix(from.rows, from.cols) {
    for (int64_t t = 0; t < rows_; ++t) std::copy_n(from.Row(t), cols_, view().Row(t));
  }
  MatrixView view() { return {elements_.data(), DType::kF32, rows_, cols_, cols_}; }

 private:
  std::vector<float> elements_;
  const int64_t rows_, cols_;
};

class ObservedBackend final : public ForwardingBackend, private LatentOps {
 public:
  ObservedBackend(std::unique_ptr<Backend> within, AttentionObserver& observer)
      : ForwardingBackend(std::move(within)),
        observer_(observer),
        reference_(MakeReferenceBackend()) {}

  LatentOps* latents() override { return ForwardingBackend::latents() == nullptr ? nullptr : this; }

  absl::StatusOr<std::unique_ptr<KvPool>> NewKvPool(const KvPoolSpec& spec) override {
    absl::StatusOr<std::unique_ptr<KvPool>> pool = ForwardingBackend::NewKvPool(spec);
    if (!pool.ok()) return pool.status();
    return std::make_unique<ObservedKvPool>(*std::move(pool), spec);
  }

  void ReserveForAttention(const KvPool& pool, int64_t max_rows) override {
    ForwardingBackend::ReserveForAttention(Observed(pool).within(), max_rows);
  }

  void BeginStep(absl::Span<const AttentionSegment> segments, int64_t rows) override {
    SLUICE_CHECK(segments.size() <= 1);
    step_.Begin(segments, rows);
    reference_->BeginStep(segments, rows);
    ForwardingBackend::BeginStep(segments, rows);
  }

  void ApplyQkNormRopeAndStoreKv(MatrixView qkv, const QkNormRopeParams& params, int layer,
                                 KvPool& pool) override {
    auto& observed = static_cast<ObservedKvPool&>(pool);
    OwnMatrix copy(qkv);
    reference_->ApplyQkNormRopeAndStoreKv(copy.view(), params, layer, observed.seen());
    ForwardingBackend::ApplyQkNormRopeAndStoreKv(qkv, params, layer, observed.within());
  }

  void CopyBlocks(absl::Span<const KvBlockCopy> copies, KvPool& pool) override {
    auto& observed = static_cast<ObservedKvPool&>(pool);
    reference_->CopyBlocks(copies, observed.seen());
    ForwardingBackend::CopyBlocks(copies, observed.within());
  }

  void PagedAttention(MatrixView q, const KvPool& pool, int layer, const AttentionOptions& options,
                      MatrixView out) override {
    const ObservedKvPool& observed = Observed(pool);
    const auto num_heads = static_cast<int>(q.cols / observed.seen().spec().head_dim);
    observer_.OnAttention(num_heads);
    for (const AttentionSegment& segment : step_.segments()) {
      for (int64_t row = 0; row < segment.num_rows; ++row) {
        for (int head = 0; head < num_heads; ++head) {
          if (!observer_.Wants(head)) continue;
          const std::vector<double> weights =
              ReferenceAttentionWeights(q, observed.seen(), layer, segment, row, head, options);
          observer_.OnWeights(head, segment.first_position + row, weights);
        }
      }
    }
    ForwardingBackend::PagedAttention(q, observed.within(), layer, options, out);
  }

 private:
  static const ObservedKvPool& Observed(const KvPool& pool) {
    return static_cast<const ObservedKvPool&>(pool);
  }

  // LatentOps.
  void GemmOfHeads(const HeadColumns& x, absl::Span<const PackedMatrix* const> weights,
                   const HeadColumns& out) override {
    ForwardingBackend::latents()->GemmOfHeads(x, weights, out);
  }
  void ReserveForGemmOfHeads(absl::Span<const PackedMatrix* const> weights,
                             int64_t max_rows) override {
    ForwardingBackend::latents()->ReserveForGemmOfHeads(weights, max_rows);
  }
  void PrepareLatentAttention(MatrixView q, MatrixView kv, const LatentParams& params, int layer,
                              KvPool& pool, MatrixView queries) override {
    auto& observed = static_cast<ObservedKvPool&>(pool);
    OwnMatrix copy(kv);
    OwnMatrix unused(queries.rows, queries.cols);
    reference_->latents()->PrepareLatentAttention(q, copy.view(), params, layer, observed.seen(),
                                                  unused.view());
    ForwardingBackend::latents()->PrepareLatentAttention(q, kv, params, layer, observed.within(),
                                                         queries);
  }

  AttentionObserver& observer_;
  const std::unique_ptr<Backend> reference_;
  HostStep step_;
};

}  // namespace

std::unique_ptr<Backend> MakeObservedBackend(std::unique_ptr<Backend> within,
                                             AttentionObserver& observer) {
  SLUICE_CHECK(!within->memory().has_value());
  return std::make_unique<ObservedBackend>(std::move(within), observer);
}

}  // namespace sluice
