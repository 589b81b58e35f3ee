#include "services/shard/step_arena.h"

#include <algorithm>

#include "kernels/check.h"
#include "kernels/rank_group.h"
#include "kernels/routing.h"

namespace sluice {
namespace {

constexpr size_t kAlignment = 64;

// Hands out matrices of `rows` rows one after another; with a null base it only measures.
class Carver {
 public:
  Carver(int64_t rows, std::byte* base) : rows_(rows), base_(base) {}

  // With memory for `padded_rows`, where that is more.
  MatrixView Take(int64_t cols, DType dtype = DType::kF32, int64_t padded_rows = 0) {
    const MatrixView view{base_ == nullptr ? nullptr : base_ + offset_, dtype, rows_, cols, cols};
    const size_t bytes = std::max(rows_, padded_rows) * cols * SizeOf(dtype);
    offset_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return view;
  }

  size_t offset() const { return offset_; }
  void Rewind(size_t offset) { offset_ = offset; }

 private:
  const int64_t rows_;
  std::byte* const base_;
  size_t offset_ = 0;
};

// Returns where the larger of two ends lies.
size_t CarveLatent(const StepShape& shape, Carver& carver, StepViews& views) {
  LatentViews& latent = views.latent;
  const size_t begin = carver.offset();
  latent.q_latent = carver.Take(shape.latent.query_rank);
  latent.q_latent_normed = carver.Take(shape.latent.query_rank, shape.operand_dtype);
  latent.q = carver.Take(shape.query_width);
  latent.kv = carver.Take(shape.latent.stored_dim);
  const size_t before = carver.offset();
  carver.Rewind(begin);
  latent.mixed = carver.Take(shape.latent.mixed_width, shape.operand_dtype);
  carver.Rewind(std::max(before, carver.offset()));
  const size_t shared = carver.offset();
  latent.absorbed = carver.Take(shape.latent.absorbed_width);
  const size_t absorbed_end = carver.offset();
  carver.Rewind(shared);
  views.attended = carver.Take(shape.value_width, shape.operand_dtype);
  return std::max(absorbed_end, carver.offset());
}

size_t CarveByHead(const StepShape& shape, Carver& carver, StepViews& views) {
  views.qkv = carver.Take(shape.query_width + 2 * shape.kv_width);
  views.attended = carver.Take(shape.value_width, shape.operand_dtype);
  if (shape.gate_width > 0) views.output_gate = carver.Take(shape.gate_width);
  return carver.offset();
}

size_t CarveRecurrent(const StepShape& shape, Carver& carver, StepViews& views) {
  if (shape.recurrent.heads == 0) return carver.offset();
  RecurrentViews& recurrent = views.recurrent;
  recurrent.mixed = carver.Take(shape.recurrent.channels);
  recurrent.gate = carver.Take(shape.recurrent.values);
  recurrent.beta = carver.Take(shape.recurrent.heads);
  recurrent.decay = carver.Take(shape.recurrent.heads);
  recurrent.attended = carver.Take(shape.recurrent.values, shape.operand_dtype);
  return carver.offset();
}

// A mixture's part. Its activations are rows of experts, of which a step has k for each of its own.
void CarveMixture(const StepShape& shape, Carver& carver, StepViews& views) {
  if (shape.num_experts == 0) return;
  views.router_outputs = carver.Take(shape.num_experts);
  const auto routing = Routing::SizeBytes(shape.max_rows, shape.num_experts, shape.num_chosen);
  views.routing =
      carver.Take(static_cast<int64_t>(routing / (shape.max_rows * sizeof(int32_t)) + 1));
  views.expert_activated = carver.Take(shape.expert_width, shape.operand_dtype);
  views.shared_activated = carver.Take(shape.shared_width, shape.operand_dtype);
  views.shared_scores = carver.Take(1);
}

// Lays out the largest step and returns how many bytes it takes.
size_t Carve(const StepShape& shape, std::byte* base, StepViews& views) {
  Carver carver(shape.max_rows, base);
  views.normed = carver.Take(shape.hidden, shape.operand_dtype);
  views.partial =
      carver.Take(shape.hidden, DType::kF32, PaddedRows(shape.max_rows, shape.num_ranks));
  if (shape.has_branch) views.branch = carver.Take(shape.hidden);
  if (shape.has_two_branches) views.second_branch = carver.Take(shape.hidden);
  if (shape.has_squares) {
    views.squares = carver.Take(2, DType::kF32, PaddedRows(shape.max_rows, shape.num_ranks));
    views.all_squares = carver.Take(2);
  }
  if (shape.num_ranks > 1 && (shape.has_branch || shape.has_squares)) {
    views.zeros = carver.Take(std::max<int64_t>(shape.hidden, 2));
  }
  if (shape.has_sources) views.apart = carver.Take(shape.hidden);
  views.side_input = carver.Take(shape.side_width);
  views.side_gate = carver.Take(shape.side_width);
  if (shape.has_query_factors) views.query_factors = carver.Take(1);
  const size_t shared = carver.offset();
  const size_t attention_end = shape.latent.stored_dim > 0 ? CarveLatent(shape, carver, views)
                                                           : CarveByHead(shape, carver, views);
  carver.Rewind(shared);
  const size_t recurrent_end = CarveRecurrent(shape, carver, views);
  carver.Rewind(shared);
  views.activated = carver.Take(shape.mlp_width, shape.operand_dtype);
  const size_t mlp_end = carver.offset();
  carver.Rewind(shared);
  CarveMixture(shape, carver, views);
  return std::max({attention_end, recurrent_end, mlp_end, carver.offset()});
}

}  // namespace

absl::StatusOr<StepArena> StepArena::Create(const StepShape& shape, Backend& backend) {
  StepViews views;
  auto memory = backend.Allocate(Carve(shape, nullptr, views));
  if (!memory.ok()) return memory.status();
  Carve(shape, static_cast<std::byte*>((*memory)->data()), views);
  return StepArena(views, *std::move(memory));
}

StepViews StepArena::Views(int64_t rows) const {
  SLUICE_CHECK(rows >= 1 && rows <= largest_.normed.rows);
  StepViews views = largest_;
  LatentViews& latent = views.latent;
  RecurrentViews& recurrent = views.recurrent;
  for (MatrixView* view : {&views.normed,
                           &views.partial,
                           &views.qkv,
                           &views.attended,
                           &views.activated,
                           &views.branch,
                           &views.second_branch,
                           &views.side_input,
                           &views.side_gate,
                           &views.zeros,
                           &views.apart,
                           &views.squares,
                           &views.all_squares,
                           &views.query_factors,
                           &views.router_outputs,
                           &views.routing,
                           &views.expert_activated,
                           &views.shared_activated,
                           &views.shared_scores,
                           &views.output_gate,
                           &recurrent.mixed,
                           &recurrent.gate,
                           &recurrent.beta,
                           &recurrent.decay,
                           &recurrent.attended,
                           &latent.q_latent,
                           &latent.q_latent_normed,
                           &latent.q,
                           &latent.kv,
                           &latent.absorbed,
                           &latent.mixed}) {
    view->rows = rows;
  }
  return views;
}

}  // namespace sluice
