// Blocks of GGUF files as rows of the formats that hold them.
#include "services/model/gguf_matrix.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/weight_format.h"
#include "services/model/gguf/gguf_types.h"

namespace sluice {
namespace {

constexpr int64_t kMatrixRows = 3, kColumns = 512;

// Random blocks of a type, whose F16 numbers are finite.
std::vector<std::byte> RandomBlocks(const GgufType& type) {
  std::mt19937 random(type.number);
  std::vector<std::byte> bytes(kMatrixRows * kColumns / type.weights * type.bytes);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  const std::string name = type.name;
  std::vector<int64_t> levels;  // upper bytes of the F16 numbers of a block
  if (name == "Q3_K") levels = {109};
  if (name == "Q6_K") levels = {209};
  if (name == "Q4_0" || name == "Q5_0" || name == "Q8_0") levels = {1};
  if (levels.empty()) levels = {1, 3};
  for (size_t block = 0; block < bytes.size(); block += type.bytes) {
    for (const int64_t at : levels) bytes[block + at] &= std::byte{0xbb};
  }
  return bytes;
}

// `bytes` as a matrix of so many rows.
std::unique_ptr<PublishedMatrix> Opened(const GgufType& type, absl::Span<const std::byte> bytes,
                                        uint64_t rows) {
  const uint64_t columns = bytes.size() / type.bytes * type.weights / rows;
  const std::vector<uint64_t> shape = {rows, columns};
  const StoredTensor stored{.type = {.name = type.name,
                                     .size = type.bytes,
                                     .dtype = std::nullopt,
                                     .block = type.weights,
                                     .decode = type.decode},
                            .shape = shape,
                            .bytes = bytes};
  return OpenGgufMatrix(
      {.file = "m.gguf", .name = "w", .type = type.name, .shape = shape, .bytes = bytes}, stored,
      static_cast<int64_t>(columns));
}

TEST(GgufMatrix, FormatsHoldTheNumbersOfBlocks) {
  int num_held = 0;
  for (const uint32_t number : {2, 3, 6, 7, 8, 11, 12, 13, 14, 39}) {
    const GgufType& type = *FindGgufType(number);
    const std::vector<std::byte> bytes = RandomBlocks(type);
    const auto matrix = Opened(type, bytes, kMatrixRows);
    const MatrixPart part{1, 2, 128, 256};  // of the last two rows
    std::vector<float> numbers(2 * 256);
    ASSERT_TRUE(matrix->Read(part, absl::MakeSpan(numbers)).ok());
    for (const WeightFormatTraits& traits : kWeightFormats) {
      if (!matrix->IsReadableAs(traits.format)) continue;
      const size_t row_bytes = RowBytes(traits.format, 256);
      std::vector<std::byte> rows(2 * row_bytes);
      ASSERT_TRUE(matrix->ReadRows(part, traits.format, absl::MakeSpan(rows)).ok());
      std::vector<float> held(numbers.size());
      for (int row = 0; row < 2; ++row) {
        DecodeRow(traits.format, absl::MakeConstSpan(rows).subspan(row * row_bytes, row_bytes),
                  absl::MakeSpan(held).subspan(row * 256, 256));
      }
      EXPECT_EQ(held, numbers) << type.name << " as " << traits.name;
      ++num_held;
    }
  }
  // Q4_0 and Q8_0: 2 + 1; Q4_1 as INT4_K and INT6_K; Q5_0 with a zero point, too; Q5_1; of K blocks
  // Q4_K in four formats, the others in two; MXFP4 in its own.
  EXPECT_EQ(num_held, 3 + 2 + 2 + 1 + 4 + 3 * 2 + 1);
}

TEST(GgufMatrix, RefusesScalesThatAreNotFinite) {
  const GgufType& type = *FindGgufType(12);
  std::vector<std::byte> bytes(type.bytes);
  bytes[3] = std::byte{0x7c};
  const auto matrix = Opened(type, bytes, 1);
  std::vector<std::byte> rows(RowBytes(WeightFormat::kInt4KG128, 256));
  const absl::Status read =
      matrix->ReadRows({0, 1, 0, 256}, WeightFormat::kInt4KG128, absl::MakeSpan(rows));
  EXPECT_NE(read.message().find("has a scale that is not finite"), std::string::npos) << read;
}

}  // namespace
}  // namespace sluice
