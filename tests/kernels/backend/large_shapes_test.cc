// Large products and steps of attention against the same rows in small ones, bit for bit: what
// needs no reference, whose loops would take minutes. On a device they are those of Llama-3.1-8B,
// which take the tiles, splits and merges that serving takes; elsewhere something small.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/matrix_format.h"
#include "kernels/weight_format.h"
#include "tests/kernels/testing/paged_sequence.h"
#include "tests/kernels/testing/primitives.h"
#include "tests/kernels/testing/tensors.h"
#include "tests/kernels/testing/test_backend.h"

namespace sluice::testing {
namespace {

bool IsOnDevice() {
  const std::optional<DeviceId> device = TestDevice();
  return device.has_value() && device->kind == DeviceKind::kCuda;
}

// What `large` is on a device is `small` elsewhere.
int64_t Scaled(int64_t large, int64_t small) { return IsOnDevice() ? large : small; }

struct Product {
  const char* name;
  int64_t outputs, inputs;
  int slices;
  bool gated;
  int64_t rows;
};

std::vector<Product> Products() {
  const int64_t rows = Scaled(2048, 144), hidden = Scaled(4096, 256), mlp = Scaled(14336, 384);
  return {{"qkv", Scaled(6144, 272), hidden, 1, false, rows},
          {"o", hidden, hidden, 4, false, rows},
          {"gate_up", 2 * mlp, hidden, 1, true, rows},
          {"down", hidden, mlp, 4, false, rows},
          {"head", Scaled(128256, 400), hidden, 1, false, Scaled(256, 80)}};
}

// Weights of any number of outputs in no time: output n is row n modulo a prime of a few, so that
// outputs that a tile exchanges differ.
std::unique_ptr<PackedMatrix> PackCheaply(Backend& backend, const Product& product,
                                          const MatrixFormat& format) {
  constexpr int64_t kRows = 251;
  const size_t row_bytes = RowBytes(format.weights, product.inputs);
  Random random(3);
  const HostMatrix values = RandomMatrix(random, kRows, product.inputs, 0.05f);
  std::vector<std::byte> rows(kRows * row_bytes);
  for (int64_t i = 0; i < kRows; ++i) {
    EncodeRow(format.weights,
              absl::MakeSpan(values.values).subspan(i * product.inputs, product.inputs),
              absl::MakeSpan(rows).subspan(i * row_bytes, row_bytes));
  }
  auto packed = backend.Pack({.num_outputs = product.outputs,
                              .num_inputs = product.inputs,
                              .format = format,
                              .num_slices = product.slices,
                              .gated = product.gated},
                             [&](int64_t begin, int64_t end, absl::Span<std::byte> out) {
                               for (int64_t i = begin; i < end; ++i) {
                                 std::memcpy(out.data() + (i - begin) * row_bytes,
                                             rows.data() + i % kRows * row_bytes, row_bytes);
                               }
                               return absl::OkStatus();
                             });
  SLUICE_CHECK(packed.ok());
  return *std::move(packed);
}

// What follows a product, and where its results go.
struct Ending {
  bool has_bias, adds_to_out;
  std::optional<Activation> activation;
  DType out;  // F32, or that of operands
};

std::vector<Ending> EndingsOf(const Product& product, DType operand) {
  if (product.gated) {
    return {{false, false, Activation::kSilu, DType::kF32},
            {true, false, Activation::kGelu, operand}};
  }
  return {{false, false, std::nullopt, DType::kF32},
          {true, true, std::nullopt, DType::kF32},
          {true, false, Activation::kGeluTanh, operand},
          {false, true, Activation::kRelu, DType::kF32}};
}

// Bytes of rows of `view`, which has no padding.
std::vector<std::byte> BytesOf(Backend& backend, MatrixView view) {
  std::vector<std::byte> bytes(view.rows * view.cols * SizeOf(view.dtype));
  EXPECT_TRUE(backend.CopyOut(view.data, absl::MakeSpan(bytes)).ok());
  return bytes;
}

class LargeProductTest : public ::testing::Test {
 protected:
  // The results of all rows, `at_a_time` of them in one product.
  std::vector<std::byte> Multiply(const Product& product, const PackedMatrix& weights, MatrixView x,
                                  const Ending& ending, int64_t at_a_time) {
    Random random(7);
    const int64_t cols = product.gated ? product.outputs / 2 : product.outputs;
    const DeviceMatrix bias(*backend_, RandomMatrix(random, 1, product.outputs));
    const DeviceMatrix out(*backend_, Before(product.rows, cols), 0, ending.out);
    const GemmEpilogue epilogue{.bias = ending.has_bias ? bias.data() : nullptr,
                                .activation = ending.activation,
                                .add_to_out = ending.adds_to_out};
    for (int64_t row = 0; row < product.rows; row += at_a_time) {
      const int64_t some = std::min(at_a_time, product.rows - row);
      backend_->Gemm(x.Rows(row, some), weights, out.view().Rows(row, some), epilogue);
    }
    return BytesOf(*backend_, out.view());
  }

  void CheckFormat(const MatrixFormat& format) {
    for (const Product& product : Products()) {
      const auto weights = PackCheaply(*backend_, product, format);
      Random random(5);
      const DeviceMatrix x(*backend_, RandomMatrix(random, product.rows, product.inputs), 0,
                           backend_->operand_dtype());
      backend_->ReserveForGemm(*weights, product.rows);
      for (const Ending& ending : EndingsOf(product, backend_->operand_dtype())) {
        const std::vector<std::byte> whole =
            Multiply(product, *weights, x.view(), ending, product.rows);
        const std::vector<std::byte> parts = Multiply(product, *weights, x.view(), ending, 16);
        ASSERT_EQ(whole.size(), parts.size());
        EXPECT_EQ(FirstDifference(whole, parts), -1)
            << product.name << ": byte that differs, of " << whole.size()
            << (ending.has_bias ? ", bias" : "") << (ending.adds_to_out ? ", added to out" : "")
            << (ending.activation.has_value() ? ", activation" : "")
            << (ending.out == DType::kBF16 ? ", BF16" : "");
      }
    }
  }

 private:
  // What lies in `out`: numbers of a few bits, made faster than random ones.
  static HostMatrix Before(int64_t rows, int64_t cols) {
    HostMatrix before(rows, cols);
    for (size_t i = 0; i < before.values.size(); ++i) {
      before.values[i] = static_cast<float>(i % 61) / 32 - 1;
    }
    return before;
  }
  static int64_t FirstDifference(const std::vector<std::byte>& a, const std::vector<std::byte>& b) {
    const auto difference = std::mismatch(a.begin(), a.end(), b.begin());
    return difference.first == a.end() ? -1 : difference.first - a.begin();
  }

  const std::unique_ptr<Backend> backend_ = NewTestBackend();
};

TEST_F(LargeProductTest, BF16RowsHaveTheBitsOfSixteens) { CheckFormat(WeightFormat::kBF16); }
TEST_F(LargeProductTest, FP8RowsHaveTheBitsOfSixteens) { CheckFormat(WeightFormat::kFp8); }
TEST_F(LargeProductTest, FP8RowsOfFP8ActivationsHaveTheBitsOfSixteens) {
  CheckFormat({WeightFormat::kFp8, ActivationFormat::kFp8});
}
TEST_F(LargeProductTest, INT8RowsHaveTheBitsOfSixteens) { CheckFormat(WeightFormat::kInt8); }
TEST_F(LargeProductTest, INT4RowsHaveTheBitsOfSixteens) { CheckFormat(WeightFormat::kInt4); }

// Sequences of one pool, in heads of Llama-3.1-8B.
class LargeAttentionTest : public ::testing::TestWithParam<DType> {
 protected:
  static constexpr int kHeads = 32, kKvHeads = 8, kHeadDim = 128, kBlockSize = 16;

  void Fill(int sequences, int64_t length) {
    length_ = length;
    const auto blocks = static_cast<int>((length + kBlockSize - 1) / kBlockSize);
    pool_ = NewKvPool(*backend_, {.num_layers = 1,
                                  .num_blocks = blocks * sequences,
                                  .num_kv_heads = kKvHeads,
                                  .head_dim = kHeadDim,
                                  .dtype = GetParam()});
    Random random(11);
    for (int s = 0; s < sequences; ++s) {
      std::vector<int32_t>& table = tables_.emplace_back(blocks);
      for (int b = 0; b < blocks; ++b) table[b] = b * sequences + s;
      const DeviceMatrix keys(*backend_, RandomMatrix(random, length, kKvHeads * kHeadDim));
      const DeviceMatrix values(*backend_, RandomMatrix(random, length, kKvHeads * kHeadDim));
      const AttentionSegment segment{.num_rows = length, .block_table = table};
      backend_->BeginStep({&segment, 1}, length);
      StoreKv(*backend_, keys.view(), values.view(), 0, *pool_);
    }
  }

  // The results of rows whose sequences and positions `segments` say.
  HostMatrix Attend(const HostMatrix& q, const std::vector<AttentionSegment>& segments) {
    const DeviceMatrix queries(*backend_, q);
    const DeviceMatrix out(*backend_, q.rows, q.cols);
    backend_->ReserveForAttention(*pool_, q.rows);
    backend_->BeginStep(segments, q.rows);
    backend_->PagedAttention(queries.view(), *pool_, 0,
                             {.scale = 1 / std::sqrt(static_cast<float>(kHeadDim))}, out.view());
    return out.Read();
  }
  AttentionSegment Segment(int sequence, int64_t first, int64_t rows, int64_t first_row = 0) const {
    return {.first_row = first_row,
            .num_rows = rows,
            .first_position = first,
            .block_table = tables_[sequence]};
  }
  static HostMatrix Queries(int64_t rows) {
    Random random(13);
    return RandomMatrix(random, rows, kHeads * kHeadDim);
  }

  const std::unique_ptr<Backend> backend_ = NewTestBackend();
  std::unique_ptr<KvPool> pool_;
  std::vector<std::vector<int32_t>> tables_;
  int64_t length_ = 0;
};

TEST_P(LargeAttentionTest, ManyStreamsHaveTheBitsOfEachAlone) {
  const auto streams = static_cast<int>(Scaled(64, 5));
  const int64_t length = Scaled(1024, 530);
  Fill(streams, length);
  const HostMatrix q = Queries(streams);
  std::vector<AttentionSegment> segments;
  for (int s = 0; s < streams; ++s) segments.push_back(Segment(s, length - 1, 1, s));
  const HostMatrix all = Attend(q, segments);
  for (int s = 0; s < streams; ++s) {
    EXPECT_TRUE(SameBits(all.Rows(s, 1), Attend(q.Rows(s, 1), {Segment(s, length - 1, 1)})))
        << "stream " << s;
  }
}

TEST_P(LargeAttentionTest, APromptHasTheBitsOfItsChunksAndOfItsLastPositionAlone) {
  const int64_t length = Scaled(2048, 290), chunk = Scaled(500, 120);
  Fill(1, length);
  const HostMatrix q = Queries(length);
  const HostMatrix all = Attend(q, {Segment(0, 0, length)});
  for (int64_t first = 0; first < length; first += chunk) {
    const int64_t some = std::min(chunk, length - first);
    EXPECT_TRUE(
        SameBits(all.Rows(first, some), Attend(q.Rows(first, some), {Segment(0, first, some)})))
        << "positions from " << first;
  }
  EXPECT_TRUE(SameBits(all.Rows(length - 1, 1),
                       Attend(q.Rows(length - 1, 1), {Segment(0, length - 1, 1)})));
}

INSTANTIATE_TEST_SUITE_P(KvTypes, LargeAttentionTest,
                         ::testing::Values(DType::kBF16, DType::kF8E4M3, DType::kF32),
                         [](const auto& info) { return std::string(Name(info.param)); });

}  // namespace
}  // namespace sluice::testing
