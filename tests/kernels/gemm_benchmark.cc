#include "tests/kernels/gemm_benchmark.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/check.h"
#include "kernels/reference/reference_backend.h"
#include "tests/kernels/checked_result.h"
#include "tests/kernels/testing/tensors.h"

namespace sluice::testing {
namespace {

constexpr size_t kBeyondCaches = size_t{256} << 20;  // bytes of weights
constexpr int64_t kFewRows = 64;                     // of activations: as in decoding
constexpr size_t kRandomRows = 251;                  // of which a large matrix is made

GemmEpilogue EpilogueOf(const MatrixShape& shape) {
  if (!shape.gated) return {};
  return {.activation = Activation::kSilu};
}

// Columns that a product with `rows` rows of weights has.
int64_t OutputsOf(const MatrixShape& shape, int64_t rows) { return shape.gated ? rows / 2 : rows; }

// Packs a matrix whose rows are some random ones over and over, each encoded once: drawing and
// quantising hundreds of megabytes would take longer than measuring them.
std::unique_ptr<PackedMatrix> PackLarge(Backend& backend, const MatrixShape& shape,
                                        WeightFormat format) {
  Random random(1);
  const HostMatrix rows = RandomMatrix(random, kRandomRows, shape.inputs);
  const size_t row_bytes = RowBytes(format, shape.inputs);
  std::vector<std::byte> encoded(kRandomRows * row_bytes);
  for (size_t row = 0; row < kRandomRows; ++row) {
    EncodeRow(format, absl::MakeSpan(rows.values).subspan(row * shape.inputs, shape.inputs),
              absl::MakeSpan(encoded).subspan(row * row_bytes, row_bytes));
  }
  const PackSpec spec{.num_outputs = shape.outputs,
                      .num_inputs = shape.inputs,
                      .format = format,
                      .num_slices = shape.num_slices,
                      .gated = shape.gated};
  auto packed = backend.Pack(spec, [&](int64_t begin, int64_t end, absl::Span<std::byte> out) {
    for (int64_t row = begin; row < end; ++row, out.remove_prefix(row_bytes)) {
      std::memcpy(out.data(), encoded.data() + row % kRandomRows * row_bytes, row_bytes);
    }
    return absl::OkStatus();
  });
  SLUICE_CHECK(packed.ok());
  return *std::move(packed);
}

void CheckGemm(Backend& backend, const MatrixShape& shape, WeightFormat format, int64_t rows) {
  const auto reference = MakeReferenceBackend();
  Random random(2);
  const HostMatrix x = RandomMatrix(random, rows, shape.inputs);
  const HostMatrix w = RandomMatrix(random, 100, shape.inputs);
  const auto multiply = [&](Backend& by) {
    const PackSpec spec{.format = format, .num_slices = shape.num_slices, .gated = shape.gated};
    const DeviceMatrix in(by, x), out(by, rows, OutputsOf(shape, w.rows));
    by.Gemm(in.view(), *Pack(by, w, spec), out.view(), EpilogueOf(shape));
    return out.Read();
  };
  // A gated result has the error of one sum times another.
  const double sum = std::sqrt(shape.inputs);
  ExpectNear(shape.name, multiply(backend), multiply(*reference),
             1e-5 * sum * (shape.gated ? sum : 1), /*relative=*/1e-5);
}

// The layers of a model with the rows that they are multiplied by.
class Layers {
 public:
  Layers(Backend& backend, const ModelShape& model, WeightFormat format, int64_t rows)
      : backend_(backend), model_(model) {
    size_t bytes = 0;
    while (bytes < kBeyondCaches) {
      for (const MatrixShape& shape : model.layer) {
        matrices_.push_back(PackLarge(backend, shape, format));
        bytes += matrices_.back()->size_bytes();
      }
    }
    Random random(3);
    for (const MatrixShape& shape : model.layer) {
      in_.emplace_back(backend, RandomMatrix(random, rows, shape.inputs));
      out_.emplace_back(backend, rows, OutputsOf(shape, shape.outputs));
    }
  }

  size_t num_layers() const { return matrices_.size() / std::size(model_.layer); }
  size_t bytes(size_t index) const { return matrices_[index]->size_bytes(); }

  // Seconds of each matrix, on average over the layers [begin, begin + count).
  std::vector<double> Time(size_t begin, size_t count, int num_threads) {
    const size_t each = std::size(model_.layer);
    std::vector<double> seconds(each, 0);
    double last = Seconds(num_threads);
    for (size_t i = begin * each; i < (begin + count) * each; ++i) {
      backend_.Gemm(in_[i % each].view(), *matrices_[i], out_[i % each].view(),
                    EpilogueOf(model_.layer[i % each]));
      const double now = Seconds(num_threads);
      seconds[i % each] += (now - last) / static_cast<double>(count);
      last = now;
    }
    return seconds;
  }

 private:
  Backend& backend_;
  const ModelShape& model_;
  std::vector<std::unique_ptr<PackedMatrix>> matrices_;  // layer by layer
  std::vector<DeviceMatrix> in_, out_;
};

Work WorkOf(const ModelShape& model, const std::string& what, WeightFormat format, int64_t rows,
            size_t bytes, double weights) {
  return {.kernel = std::string(model.name) + " T " + std::to_string(rows) + " " + what,
          .format = std::string(Name(format)),
          .bytes = static_cast<double>(bytes),
          .operations = 2.0 * static_cast<double>(rows) * weights,
          .arithmetic = ArithmeticOf(format),
          .group = rows == 1          ? "gemv"
                   : rows <= kFewRows ? "batch"
                                      : "gemm"};
}

}  // namespace

void MeasureModelGemms(Meter& meter, Backend& backend, const ModelShape& model, WeightFormat format,
                       int64_t rows) {
  Layers layers(backend, model, format, rows);
  std::vector<Work> works;
  size_t all_bytes = 0;
  double all_weights = 0;
  for (size_t i = 0; i < std::size(model.layer); ++i) {
    const MatrixShape& shape = model.layer[i];
    CheckGemm(backend, shape, format, std::min<int64_t>(rows, 9));
    const auto weights = static_cast<double>(shape.inputs * shape.outputs);
    works.push_back(WorkOf(model,
                           std::string(shape.name) + " " + std::to_string(shape.inputs) + "x" +
                               std::to_string(shape.outputs),
                           format, rows, layers.bytes(i), weights));
    all_bytes += layers.bytes(i);
    all_weights += weights;
  }
  works.push_back(WorkOf(model, "layer", format, rows, all_bytes, all_weights));

  // Few rows pass through all layers, so that none is in a cache; many stay with one layer.
  const size_t count = rows <= kFewRows ? layers.num_layers() : 1;
  size_t next = 0;
  meter.Measure(works, [&] {
    std::vector<double> seconds = layers.Time(next, count, meter.pool().num_threads());
    next = (next + count) % layers.num_layers();
    double all = 0;
    for (const double each : seconds) all += each;
    seconds.push_back(all);
    return seconds;
  });
}

}  // namespace sluice::testing
