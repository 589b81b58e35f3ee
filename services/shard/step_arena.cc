#include "services/shard/step_arena.h"

#include <algorithm>

#include "kernels/check.h"
#include "services/shard/tree_reducer.h"

namespace sluice {
namespace {

constexpr size_t kAlignment = 64;

// Hands out matrices one after another; with a null base it only measures.
class Carver {
 public:
  explicit Carver(std::byte* base) : base_(base) {}

  MatrixView Take(int64_t rows, int64_t cols) {
    MatrixView view{base_ == nullptr ? nullptr : base_ + offset_, DType::kF32, rows, cols, cols};
    const size_t bytes = rows * cols * sizeof(float);
    offset_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return view;
  }

  size_t offset() const { return offset_; }
  void Rewind(size_t offset) { offset_ = offset; }

 private:
  std::byte* const base_;
  size_t offset_ = 0;
};

// Lays out a step of `rows` rows and returns how many bytes it takes.
size_t Carve(const StepShape& shape, int64_t rows, std::byte* base, StepViews& views) {
  Carver carver(base);
  views.cos = carver.Take(rows, shape.rope_pairs);
  views.sin = carver.Take(rows, shape.rope_pairs);
  views.normed = carver.Take(rows, shape.hidden);
  views.partial = carver.Take(TreeReducer::PaddedRows(rows, shape.num_ranks), shape.hidden);
  views.partial.rows = rows;
  const size_t shared = carver.offset();
  views.qkv = carver.Take(rows, shape.query_width + 2 * shape.kv_width);
  views.attended = carver.Take(rows, shape.query_width);
  const size_t attention_end = carver.offset();
  carver.Rewind(shared);
  views.activated = carver.Take(rows, shape.mlp_width);
  return std::max(attention_end, carver.offset());
}

}  // namespace

absl::StatusOr<StepArena> StepArena::Create(const StepShape& shape, Backend& backend) {
  StepViews unused;
  auto memory = backend.Allocate(Carve(shape, shape.max_rows, nullptr, unused));
  if (!memory.ok()) return memory.status();
  return StepArena(shape, *std::move(memory));
}

StepViews StepArena::Views(int64_t rows) const {
  SLUICE_CHECK(rows >= 1 && rows <= shape_.max_rows);
  StepViews views;
  Carve(shape_, rows, static_cast<std::byte*>(memory_->data()), views);
  return views;
}

}  // namespace sluice
