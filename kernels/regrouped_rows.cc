#include "kernels/regrouped_rows.h"

#include <vector>

namespace sluice {

RowReader RowsAs(WeightFormat as, const PackSpec& spec, const RowReader& read) {
  const WeightFormat from = spec.format.weights;
  if (as == from) return read;
  return
      [&read, from, as, num_inputs = spec.num_inputs, row_bytes = RowBytes(from, spec.num_inputs)](
          int64_t begin, int64_t end, absl::Span<std::byte> out) {
        std::vector<std::byte> rows(static_cast<size_t>(end - begin) * row_bytes);
        absl::Status status = read(begin, end, absl::MakeSpan(rows));
        if (!status.ok()) return status;
        if (IsQuantized(as)) {
          RegroupRows(from, rows, as, out);
        } else {
          RecodeRows(from, rows, as, num_inputs, out);
        }
        return status;
      };
}

}  // namespace sluice
