#include "tests/kernels/testing/tensors.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/check.h"

namespace sluice::testing {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

std::vector<std::byte> Encoded(const std::vector<float>& values, DType dtype) {
  std::vector<std::byte> bytes(values.size() * SizeOf(dtype));
  for (size_t i = 0; i < values.size(); ++i) {
    const uint16_t narrow = BFloat16FromFloat(values[i]);
    const void* element = &values[i];
    if (dtype == DType::kBF16) element = &narrow;
    std::memcpy(bytes.data() + i * SizeOf(dtype), element, SizeOf(dtype));
  }
  return bytes;
}

// Distance in units of what is allowed; 0 for equal infinities and for two NaN.
double Excess(double actual, double expected, double absolute, double relative) {
  if (actual == expected || (std::isnan(actual) && std::isnan(expected))) return 0;
  const double excess = std::abs(actual - expected) / (absolute + relative * std::abs(expected));
  return std::isnan(excess) ? std::numeric_limits<double>::infinity() : excess;
}

::testing::AssertionResult SameShape(const HostMatrix& actual, const HostMatrix& expected) {
  if (actual.rows == expected.rows && actual.cols == expected.cols) {
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure()
         << "shape [" << actual.rows << ", " << actual.cols << "], expected [" << expected.rows
         << ", " << expected.cols << "]";
}

}  // namespace

HostMatrix HostMatrix::Rows(int64_t begin, int64_t count) const {
  return {
      count, cols,
      std::vector<float>(values.begin() + begin * cols, values.begin() + (begin + count) * cols)};
}

HostMatrix HostMatrix::Columns(int64_t begin, int64_t count) const {
  HostMatrix result(rows, count);
  for (int64_t row = 0; row < rows; ++row) {
    std::copy_n(values.begin() + row * cols + begin, count, result.values.begin() + row * count);
  }
  return result;
}

HostMatrix RandomMatrix(Random& random, int64_t rows, int64_t cols, float deviation) {
  std::normal_distribution<float> normal(0, deviation);
  HostMatrix matrix(rows, cols);
  for (float& value : matrix.values) value = normal(random);
  return matrix;
}

int64_t RandomInt(Random& random, int64_t lowest, int64_t highest) {
  return std::uniform_int_distribution<int64_t>(lowest, highest)(random);
}

HostMatrix RoundedToBFloat16(HostMatrix matrix) {
  for (float& value : matrix.values) value = FloatFromBFloat16(BFloat16FromFloat(value));
  return matrix;
}

DeviceMatrix::DeviceMatrix(Backend& backend, const HostMatrix& host, int64_t padding, DType dtype)
    : backend_(&backend) {
  HostMatrix padded(host.rows, host.cols + padding);
  std::fill(padded.values.begin(), padded.values.end(), kNaN);
  for (int64_t row = 0; row < host.rows; ++row) {
    std::copy_n(host.values.begin() + row * host.cols, host.cols,
                padded.values.begin() + row * padded.cols);
  }
  const std::vector<std::byte> bytes = Encoded(padded.values, dtype);
  absl::StatusOr<std::unique_ptr<Buffer>> buffer = backend.Allocate(bytes.size());
  SLUICE_CHECK(buffer.ok());
  buffer_ = *std::move(buffer);
  backend.CopyIn(bytes, buffer_->data());
  view_ = {buffer_->data(), dtype, host.rows, host.cols, padded.cols};
}

DeviceMatrix::DeviceMatrix(Backend& backend, int64_t rows, int64_t cols, int64_t padding)
    : DeviceMatrix(backend, HostMatrix(rows, cols, std::vector<float>(rows * cols, kNaN)),
                   padding) {}

HostMatrix DeviceMatrix::Read() const {
  SLUICE_CHECK(view_.dtype == DType::kF32);
  HostMatrix padded(view_.rows, view_.stride);
  const absl::Status status = backend_->CopyOut(
      buffer_->data(), absl::MakeSpan(reinterpret_cast<std::byte*>(padded.values.data()),
                                      padded.values.size() * sizeof(float)));
  EXPECT_TRUE(status.ok()) << status;
  const HostMatrix padding = padded.Columns(view_.cols, view_.stride - view_.cols);
  EXPECT_TRUE(std::all_of(padding.values.begin(), padding.values.end(), [](float value) {
    return std::isnan(value);
  })) << "something was written between the rows";
  return padded.Columns(0, view_.cols);
}

std::unique_ptr<PackedMatrix> Pack(Backend& backend, const HostMatrix& weights, WeightFormat format,
                                   int num_slices) {
  return Pack(backend, weights, {.format = format, .num_slices = num_slices});
}

std::unique_ptr<PackedMatrix> Pack(Backend& backend, const HostMatrix& weights, PackSpec spec) {
  spec.num_outputs = weights.rows;
  spec.num_inputs = weights.cols;
  absl::StatusOr<std::unique_ptr<PackedMatrix>> packed =
      backend.Pack(spec, [&](int64_t begin, int64_t end, absl::Span<std::byte> out) {
        const size_t row_bytes = RowBytes(spec.format.weights, weights.cols);
        for (int64_t row = begin; row < end; ++row, out.remove_prefix(row_bytes)) {
          EncodeRow(spec.format.weights,
                    absl::MakeSpan(weights.values).subspan(row * weights.cols, weights.cols),
                    out.first(row_bytes));
        }
        return absl::OkStatus();
      });
  SLUICE_CHECK(packed.ok());
  return *std::move(packed);
}

::testing::AssertionResult IsNear(const HostMatrix& actual, const HostMatrix& expected,
                                  double absolute, double relative) {
  if (auto same = SameShape(actual, expected); !same) return same;
  double worst = 0;
  size_t where = 0;
  for (size_t i = 0; i < actual.values.size(); ++i) {
    const double excess = Excess(actual.values[i], expected.values[i], absolute, relative);
    if (excess > worst) {
      worst = excess;
      where = i;
    }
  }
  if (worst <= 1) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << "[" << where / actual.cols << ", " << where % actual.cols << "] is "
         << actual.values[where] << ", expected " << expected.values[where] << ": " << worst
         << " times what is allowed";
}

::testing::AssertionResult SameBits(const HostMatrix& actual, const HostMatrix& expected) {
  if (auto same = SameShape(actual, expected); !same) return same;
  for (size_t i = 0; i < actual.values.size(); ++i) {
    if (std::bit_cast<uint32_t>(actual.values[i]) != std::bit_cast<uint32_t>(expected.values[i])) {
      return ::testing::AssertionFailure()
             << "[" << i / actual.cols << ", " << i % actual.cols << "] is " << std::hexfloat
             << actual.values[i] << ", expected " << expected.values[i];
    }
  }
  return ::testing::AssertionSuccess();
}

}  // namespace sluice::testing
