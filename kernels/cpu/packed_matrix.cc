#include "kernels/cpu/packed_matrix.h"

#include <atomic>
#include <mutex>
#include <vector>

#include "kernels/check.h"
#include "kernels/regrouped_rows.h"

namespace sluice {
namespace {

void CheckSpec(const PackSpec& spec) {
  SLUICE_CHECK(spec.num_outputs > 0 && spec.num_inputs > 0);
  SLUICE_CHECK(spec.num_slices > 0 && (spec.num_slices & (spec.num_slices - 1)) == 0);
  SLUICE_CHECK(spec.num_inputs % spec.num_slices == 0);
  SLUICE_CHECK(!spec.gated || spec.num_outputs % 2 == 0);
  SLUICE_CHECK(spec.format.IsSupported());
  SLUICE_CHECK(spec.num_inputs / spec.num_slices % TraitsOf(spec.format.weights).group == 0);
}

// The first failure of several threads.
class FirstFailure {
 public:
  bool any() const { return any_.load(std::memory_order_relaxed); }
  void Note(const absl::Status& status) {
    if (status.ok()) return;
    const std::lock_guard lock(mutex_);
    if (status_.ok()) status_ = status;
    any_ = true;
  }
  // Once the threads are done.
  const absl::Status& status() const { return status_; }

 private:
  std::atomic<bool> any_{false};
  std::mutex mutex_;
  absl::Status status_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<PackedMatrix>> CpuPackedMatrix::Pack(
    const PackSpec& spec, InstructionSet instructions, const RowReader& read,
    const NumaLayout& layout, absl::Span<HostArena> arenas, ThreadPool& pool) {
  CheckSpec(spec);
  PackSpec kept = spec;
  kept.format.weights = TraitsOf(spec.format.weights).on_cpu;
  const RowReader rows_as_kept = RowsAs(kept.format.weights, spec, read);
  auto matrix = std::unique_ptr<CpuPackedMatrix>(
      new CpuPackedMatrix(kept, GemmKernelFor(instructions, kept.format.weights), layout));
  if (absl::Status taken = matrix->TakePieces(arenas); !taken.ok()) return taken;
  const size_t panel_bytes = kPanelWidth * matrix->RowBytesOf(spec.num_inputs);
  std::vector<std::vector<std::byte>> rows(pool.num_threads());
  FirstFailure failure;
  pool.ParallelFor(matrix->num_panels(), [&](int64_t panel, int worker) {
    if (failure.any()) return;
    rows[worker].resize(panel_bytes);
    failure.Note(matrix->PackPanel(panel, rows_as_kept, absl::MakeSpan(rows[worker])));
  });
  if (failure.any()) return failure.status();
  return matrix;
}

absl::Status CpuPackedMatrix::TakePieces(absl::Span<HostArena> arenas) {
  for (int share = 0; share < layout_.num_shares(); ++share) {
    const int64_t first = layout_.FirstUnit(share, num_panels());
    const int64_t end = layout_.FirstUnit(share + 1, num_panels());
    if (first == end) continue;
    const int64_t last_bytes = end == num_panels() ? last_slice_bytes_ : slice_bytes_;
    const int64_t bytes = spec_.num_slices * ((end - 1 - first) * slice_bytes_ + last_bytes);
    absl::StatusOr<HostPart> memory = arenas[share].Take(bytes);
    if (!memory.ok()) return memory.status();
    PlaceOnNodes(memory->data, memory->size_bytes, layout_.shares()[share].nodes);
    pieces_.push_back({first, end, *std::move(memory)});
  }
  return absl::OkStatus();
}

size_t CpuPackedMatrix::size_bytes() const {
  size_t bytes = 0;
  for (const Piece& piece : pieces_) bytes += piece.memory.size_bytes;
  return bytes;
}

absl::Status CpuPackedMatrix::PackPanel(int64_t panel, const RowReader& read,
                                        absl::Span<std::byte> rows) {
  const int64_t columns = PanelColumns(panel);
  const int64_t first = panel * panel_columns();
  const int64_t row_bytes = RowBytesOf(spec_.num_inputs);
  absl::Status status = read(first, first + columns, rows.first(columns * row_bytes));
  if (spec_.gated && status.ok()) {
    const int64_t first_up = num_columns() + first;
    std::fill(rows.begin() + columns * row_bytes, rows.end(), std::byte{0});
    status = read(first_up, first_up + columns,
                  rows.subspan(panel_columns() * row_bytes, columns * row_bytes));
  }
  if (!status.ok()) return status;
  for (int64_t slice = 0; slice < spec_.num_slices; ++slice) {
    kernel_.pack({.rows = rows.data() + RowBytesOf(slice * slice_depth()),
                  .row_bytes = static_cast<size_t>(row_bytes),
                  .outputs = spec_.gated ? kPanelWidth : columns,
                  .width = PanelOutputs(panel),
                  .depth = slice_depth(),
                  .out = const_cast<std::byte*>(Slice(panel, slice))});
  }
  return absl::OkStatus();
}

}  // namespace sluice
