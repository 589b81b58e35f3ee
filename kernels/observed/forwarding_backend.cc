#include "kernels/observed/forwarding_backend.h"

#include <algorithm>
#include <type_traits>
#include <utility>
#include <vector>

namespace sluice {
namespace {

template <class T>
std::vector<std::remove_const_t<T>> CopyOf(absl::Span<T> span) {
  return {span.begin(), span.end()};
}

// Results that work may still write when nobody waits for it any more.
template <class T>
std::shared_ptr<std::vector<T>> Staged(absl::Span<T> results) {
  return std::make_shared<std::vector<T>>(results.size());
}

// Segments with tables of their own.
struct OwnedSegments {
  explicit OwnedSegments(absl::Span<const AttentionSegment> from) : segments(CopyOf(from)) {
    for (AttentionSegment& segment : segments) {
      tables.push_back(CopyOf(segment.block_table));
      segment.block_table = tables.back();
    }
  }

  std::vector<AttentionSegment> segments;
  std::vector<std::vector<int32_t>> tables;
};

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

// Hands mixtures on as the backend's other operations.
class ForwardingBackend::Experts final : public ExpertOps {
 public:
  explicit Experts(ForwardingBackend& backend) : backend_(backend) {}

  void Route(MatrixView outputs, const RouteParams& params, const Routing& routing) override {
    Forward([=](ExpertOps& within) { within.Route(outputs, params, routing); });
  }
  void GroupedGemm(MatrixView x, const ExpertMatrices& weights, const Routing& routing,
                   const GroupedOptions& options, MatrixView out) override {
    Forward([=, &weights](ExpertOps& within) {
      within.GroupedGemm(x, weights, routing, options, out);
    });
  }
  void CombineExperts(MatrixView x, const ExpertMatrices& weights, const Routing& routing,
                      const CombineOptions& options, MatrixView out) override {
    Forward([=, &weights](ExpertOps& within) {
      within.CombineExperts(x, weights, routing, options, out);
    });
  }
  void ReserveForExperts(const ExpertMatrices& gate_up, const ExpertMatrices& down,
                         const PackedMatrix* shared, int num_chosen, int64_t max_rows) override {
    backend_.within_->experts()->ReserveForExperts(gate_up, down, shared, num_chosen, max_rows);
  }

 private:
  void Forward(std::function<void(ExpertOps& within)> operation) {
    backend_.Enqueue([this, operation = std::move(operation)] {
      operation(*backend_.within_->experts());
      return absl::OkStatus();
    });
  }

  ForwardingBackend& backend_;
};

ForwardingBackend::ForwardingBackend(std::unique_ptr<Backend> within)
    : within_(std::move(within)),
      experts_(within_->experts() == nullptr ? nullptr : std::make_unique<Experts>(*this)) {}

ForwardingBackend::~ForwardingBackend() = default;

// NOLINTNEXTLINE(performance-unnecessary-value-param): who queues the work keeps it
void ForwardingBackend::Enqueue(Work work) {
  if (failure_.ok()) failure_ = work();
}

absl::Status ForwardingBackend::Synchronize(Deadline deadline) {
  absl::Status status = std::exchange(failure_, absl::OkStatus());
  status.Update(within_->Synchronize(deadline));
  return status;
}

template <class Operation>
void ForwardingBackend::Forward(Operation operation) {
  Enqueue([operation = std::move(operation)] {
    operation();
    return absl::OkStatus();
  });
}

absl::Status ForwardingBackend::Await(Work work) {
  Enqueue(std::move(work));
  return Device::Synchronize();
}

std::string_view ForwardingBackend::name() const { return within_->name(); }
DType ForwardingBackend::operand_dtype() const { return within_->operand_dtype(); }
std::optional<DeviceMemory> ForwardingBackend::memory() const { return within_->memory(); }

absl::StatusOr<std::unique_ptr<Buffer>> ForwardingBackend::Allocate(size_t size_bytes) {
  return within_->Allocate(size_bytes);
}

void ForwardingBackend::CopyIn(absl::Span<const std::byte> host, void* device) {
  Forward([this, staged = CopyOf(host), device] { within_->CopyIn(staged, device); });
}

absl::Status ForwardingBackend::CopyOut(const void* device, absl::Span<std::byte> host) {
  const auto staged = Staged(host);
  absl::Status status =
      Await([=, this] { return within_->CopyOut(device, absl::MakeSpan(*staged)); });
  if (status.ok()) std::copy(staged->begin(), staged->end(), host.begin());
  return status;
}

absl::StatusOr<std::unique_ptr<PackedMatrix>> ForwardingBackend::Pack(const PackSpec& spec,
                                                                      const RowReader& read) {
  return within_->Pack(spec, read);
}

absl::StatusOr<std::unique_ptr<KvPool>> ForwardingBackend::NewKvPool(const KvPoolSpec& spec) {
  return within_->NewKvPool(spec);
}

void ForwardingBackend::ReserveForGemm(const PackedMatrix& weights, int64_t max_rows) {
  within_->ReserveForGemm(weights, max_rows);
}

void ForwardingBackend::ReserveForGemmOfHeads(absl::Span<const PackedMatrix* const> weights,
                                              int64_t max_rows) {
  within_->latents()->ReserveForGemmOfHeads(weights, max_rows);
}

void ForwardingBackend::ReserveForAttention(const KvPool& pool, int64_t max_rows) {
  within_->ReserveForAttention(pool, max_rows);
}

absl::StatusOr<std::unique_ptr<RankGroup>> ForwardingBackend::NewRankGroup(
    const RankGroupSpec& spec) {
  return within_->NewRankGroup(spec);
}

int64_t ForwardingBackend::BucketRows(int64_t rows) const { return within_->BucketRows(rows); }

void ForwardingBackend::BeginStep(absl::Span<const AttentionSegment> segments, int64_t rows) {
  Forward([this, owned = std::make_shared<OwnedSegments>(segments), rows] {
    within_->BeginStep(owned->segments, rows);
  });
}

absl::Status ForwardingBackend::RunStep(const StepKey& key,
                                        absl::FunctionRef<absl::Status()> enqueue) {
  return within_->RunStep(key, enqueue);
}

void ForwardingBackend::GatherRows(MatrixView table, absl::Span<const int32_t> rows,
                                   MatrixView out) {
  Forward([=, this, rows = CopyOf(rows)] { within_->GatherRows(table, rows, out); });
}

absl::Status ForwardingBackend::GatherElements(MatrixView x,
                                               absl::Span<const MatrixElement> elements,
                                               absl::Span<float> values) {
  const auto staged = Staged(values);
  absl::Status status = Await([=, this, elements = CopyOf(elements)] {
    return within_->GatherElements(x, elements, absl::MakeSpan(*staged));
  });
  if (status.ok()) std::copy(staged->begin(), staged->end(), values.begin());
  return status;
}

void ForwardingBackend::RmsNorm(MatrixView x, const float* weight, float eps, MatrixView out) {
  Forward([=, this] { within_->RmsNorm(x, weight, eps, out); });
}

void ForwardingBackend::LayerNorm(MatrixView x, const float* weight, const float* bias, float eps,
                                  MatrixView out) {
  Forward([=, this] { within_->LayerNorm(x, weight, bias, eps, out); });
}

void ForwardingBackend::Gemm(MatrixView x, const PackedMatrix& weights, MatrixView out,
                             const GemmEpilogue& epilogue) {
  Forward([=, this, &weights] { within_->Gemm(x, weights, out, epilogue); });
}

void ForwardingBackend::ApplyQkNormRopeAndStoreKv(MatrixView qkv, const QkNormRopeParams& params,
                                                  int layer, KvPool& pool) {
  const RopeTables rotations = params.rotations == nullptr ? RopeTables{} : *params.rotations;
  Forward([=, this, &pool] {
    QkNormRopeParams owned = params;
    if (owned.rotations != nullptr) owned.rotations = &rotations;
    within_->ApplyQkNormRopeAndStoreKv(qkv, owned, layer, pool);
  });
}

void ForwardingBackend::GemmOfHeads(const HeadColumns& x,
                                    absl::Span<const PackedMatrix* const> weights,
                                    const HeadColumns& out) {
  Forward(
      [=, this, weights = CopyOf(weights)] { within_->latents()->GemmOfHeads(x, weights, out); });
}

void ForwardingBackend::PrepareLatentAttention(MatrixView q, MatrixView kv,
                                               const LatentParams& params, int layer, KvPool& pool,
                                               MatrixView queries) {
  const RopeTables rotations = *params.rotations;
  Forward([=, this, &pool] {
    LatentParams owned = params;
    owned.rotations = &rotations;
    within_->latents()->PrepareLatentAttention(q, kv, owned, layer, pool, queries);
  });
}

absl::StatusOr<std::unique_ptr<StatePool>> ForwardingBackend::NewStatePool(
    const StatePoolSpec& spec) {
  return RecurrentOpsOf(*within_)->NewStatePool(spec);
}

void ForwardingBackend::CopyStates(absl::Span<const KvBlockCopy> copies, StatePool& pool) {
  Forward([this, copies = CopyOf(copies), &pool] {
    RecurrentOpsOf(*within_)->CopyStates(copies, pool);
  });
}

void ForwardingBackend::Recur(const RecurrenceInputs& inputs, const RecurrenceParams& params,
                              int layer, StatePool& pool, MatrixView out) {
  Forward([=, this, &pool] { RecurrentOpsOf(*within_)->Recur(inputs, params, layer, pool, out); });
}

void ForwardingBackend::BeginStates(absl::Span<const StateSegment> segments) {
  Forward([this, owned = std::make_shared<OwnStateSegments>(segments)] {
    RecurrentOpsOf(*within_)->BeginStates(owned->all());
  });
}

void ForwardingBackend::Square(MatrixView x) {
  Forward([=, this] { RecurrentOpsOf(*within_)->Square(x); });
}

void ForwardingBackend::GateBySigmoid(MatrixView gate, MatrixView x) {
  Forward([=, this] { RecurrentOpsOf(*within_)->GateBySigmoid(gate, x); });
}

void ForwardingBackend::GroupRmsNorm(MatrixView x, const float* weight, float eps, int num_groups,
                                     MatrixView out) {
  Forward([=, this] { RecurrentOpsOf(*within_)->GroupRmsNorm(x, weight, eps, num_groups, out); });
}

void ForwardingBackend::CopyBlocks(absl::Span<const KvBlockCopy> copies, KvPool& pool) {
  Forward([this, copies = CopyOf(copies), &pool] { within_->CopyBlocks(copies, pool); });
}

void ForwardingBackend::PagedAttention(MatrixView q, const KvPool& pool, int layer,
                                       const AttentionOptions& options, MatrixView out) {
  Forward([=, this, &pool] { within_->PagedAttention(q, pool, layer, options, out); });
}

void ForwardingBackend::Scale(float factor, MatrixView x) {
  Forward([=, this] { within_->Scale(factor, x); });
}

void ForwardingBackend::ScaleRows(const float* factors, MatrixView x) {
  Forward([=, this] { within_->ScaleRows(factors, x); });
}

void ForwardingBackend::SoftCap(float cap, MatrixView x) {
  Forward([=, this] { within_->SoftCap(cap, x); });
}

void ForwardingBackend::SumSquares(MatrixView x, int num_slices, MatrixView out) {
  Forward([=, this] { within_->SumSquares(x, num_slices, out); });
}

void ForwardingBackend::RmsNormOfPart(MatrixView x, MatrixView squares, int64_t count,
                                      const float* weight, float eps) {
  Forward([=, this] { within_->RmsNormOfPart(x, squares, count, weight, eps); });
}

void ForwardingBackend::AddResidual(MatrixView x, MatrixView residual) {
  Forward([=, this] { within_->AddResidual(x, residual); });
}

void ForwardingBackend::TreeAdd(absl::Span<const MatrixView> partials, MatrixView out) {
  Forward([=, this, partials = CopyOf(partials)] { within_->TreeAdd(partials, out); });
}

void ForwardingBackend::TreeAddToResidual(absl::Span<const MatrixView> partials,
                                          const ResidualUpdate& update) {
  Forward([=, this, partials = CopyOf(partials)] { within_->TreeAddToResidual(partials, update); });
}

void ForwardingBackend::LogSoftmax(MatrixView x, MatrixView out) {
  Forward([=, this] { within_->LogSoftmax(x, out); });
}

absl::Status ForwardingBackend::TopK(MatrixView x, int k, absl::Span<float> values,
                                     absl::Span<int32_t> ids) {
  const auto staged_values = Staged(values);
  const auto staged_ids = Staged(ids);
  absl::Status status = Await([=, this] {
    return within_->TopK(x, k, absl::MakeSpan(*staged_values), absl::MakeSpan(*staged_ids));
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
    return within_->Sample(logits, owned->rows, absl::MakeSpan(*staged));
  });
  if (status.ok()) std::move(staged->begin(), staged->end(), results.begin());
  return status;
}

}  // namespace sluice
