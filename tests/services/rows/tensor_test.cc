#include "services/rows/tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace sluice {
namespace {

using ::testing::HasSubstr;

void ExpectRefused(const v1::Tensor& tensor, const std::string& part) {
  const absl::Status status = CheckMatrix(tensor, DType::kF32, 3);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr(part));
}

TEST(Tensor, IsMadeWithRoomForItsData) {
  const v1::Tensor tensor = NewTensor(DType::kBF16, {4, 3});
  EXPECT_EQ(tensor.dtype(), v1::DATA_TYPE_BF16);
  EXPECT_THAT(tensor.shape(), ::testing::ElementsAre(4, 3));
  EXPECT_EQ(tensor.data().size(), 24u);
  EXPECT_TRUE(CheckMatrix(tensor, DType::kBF16, 3).ok());
}

TEST(CheckMatrix, TakesAnyNumberOfRows) {
  for (int64_t rows : {0, 1, 1000}) {
    EXPECT_TRUE(CheckMatrix(NewTensor(DType::kF32, {rows, 3}), DType::kF32, 3).ok());
  }
}

TEST(CheckMatrix, RefusesAnotherType) {
  ExpectRefused(NewTensor(DType::kBF16, {2, 3}), "DATA_TYPE_BF16, expected DATA_TYPE_F32");
  ExpectRefused(v1::Tensor(), "DATA_TYPE_UNSPECIFIED");
}

TEST(CheckMatrix, RefusesAnotherShape) {
  ExpectRefused(NewTensor(DType::kF32, {3}), "[3], expected [rows, 3]");
  ExpectRefused(NewTensor(DType::kF32, {2, 4}), "[2, 4]");
  ExpectRefused(NewTensor(DType::kF32, {1, 2, 3}), "[1, 2, 3]");
  v1::Tensor negative = NewTensor(DType::kF32, {0, 3});
  negative.set_shape(0, -1);
  ExpectRefused(negative, "[-1, 3]");
}

TEST(CheckMatrix, RefusesMoreOrFewerBytesThanTheShapeSays) {
  for (int difference : {-12, -1, 1, 12}) {
    v1::Tensor tensor = NewTensor(DType::kF32, {2, 3});
    tensor.mutable_data()->resize(24 + difference);
    ExpectRefused(tensor, "bytes of data");
  }
}

TEST(CheckMatrix, RefusesRowsWhoseBytesOverflow) {
  v1::Tensor tensor = NewTensor(DType::kF32, {0, 3});
  for (const int64_t rows : {std::numeric_limits<int64_t>::max(), int64_t{1} << 62}) {
    tensor.set_shape(0, rows);
    ExpectRefused(tensor, "with 0 bytes");
  }
  // 12 bytes a row: this many rows are 2^64 bytes and 8 more.
  tensor.set_shape(0, 1537228672809129302);
  tensor.mutable_data()->resize(8);
  ExpectRefused(tensor, "with 8 bytes");
}

}  // namespace
}  // namespace sluice
