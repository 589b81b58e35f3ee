#include "services/model/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/services/model/model_folder.h"

namespace sluice {
namespace {

using ::sluice::testing::ElementOf;
using ::sluice::testing::MakeTensor;
using ::sluice::testing::OwnedTensor;
using ::sluice::testing::SafetensorsBytes;
using ::sluice::testing::TempFolder;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;

Checkpoint Opened(const TempFolder& folder) {
  auto checkpoint = Checkpoint::Open(folder.path());
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
  return *std::move(checkpoint);
}

std::string Refusal(const TempFolder& folder, absl::StatusCode code) {
  const auto opened = Checkpoint::Open(folder.path());
  if (opened.ok()) return "accepted";
  EXPECT_EQ(opened.status().code(), code) << opened.status();
  return std::string(opened.status().message());
}

std::vector<float> ReadFloats(const Checkpoint& checkpoint, const std::string& name,
                              MatrixShape shape, const TensorSlice& slice) {
  std::vector<float> out(slice.size());
  const auto read =
      checkpoint.Read(name, shape, slice, DType::kF32,
                      {reinterpret_cast<std::byte*>(out.data()), out.size() * sizeof(float)});
  EXPECT_TRUE(read.ok()) << read;
  return out;
}

TEST(Checkpoint, SaysWhatIsThereInPlaceOfWeights) {
  for (const auto& [name, said] :
       {std::pair("README.md", "the files it names"),
        std::pair("pytorch_model.bin", "pytorch_model.bin is of a format that is not read"),
        std::pair("model.Q4.gguf",
                  "model.Q4.gguf is a model by itself: name the file with --model")}) {
    const TempFolder folder;
    EXPECT_FALSE(Checkpoint::IsIn(folder.path()));
    folder.Write(name, "");
    EXPECT_THAT(Refusal(folder, absl::StatusCode::kNotFound), EndsWith(said));
  }
  const TempFolder folder;
  std::filesystem::create_symlink("nowhere", folder.PathOf("model.safetensors"));
  EXPECT_THAT(Refusal(folder, absl::StatusCode::kNotFound),
              EndsWith("; model.safetensors is a link to a file that is not there"));
}

TEST(Checkpoint, ReadsEverySliceOfEveryType) {
  constexpr uint32_t kSeed = 5;
  constexpr MatrixShape kShape{37, 53};
  const TempFolder folder;
  // An odd-sized tensor in front leaves those after it unaligned.
  folder.Write("model.safetensors",
               "" + SafetensorsBytes({MakeTensor("odd", DType::kBF16, {3}),
                                      MakeTensor("F32", DType::kF32, {37, 53}),
                                      MakeTensor("F16", DType::kF16, {37, 53}),
                                      MakeTensor("BF16", DType::kBF16, {37, 53})}));
  const Checkpoint checkpoint = Opened(folder);
  std::mt19937 random(kSeed);
  const auto random_range = [&](int64_t size) {
    const int64_t begin = random() % (size + 1);
    return IndexRange{begin, begin + static_cast<int64_t>(random() % (size - begin + 1))};
  };
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE(absl::StrCat("seed ", kSeed, " round ", round));
    TensorSlice slice{random_range(kShape.rows), random_range(kShape.columns)};
    if (round % 3 == 0) slice.rows = {0, kShape.rows};
    if (round % 3 == 1) slice.columns = {0, kShape.columns};
    for (const std::string name : {"F32", "F16", "BF16"}) {
      std::vector<float> expected;
      std::vector<uint16_t> expected_bf16;
      for (int64_t row = slice.rows.begin; row < slice.rows.end; ++row) {
        for (int64_t column = slice.columns.begin; column < slice.columns.end; ++column) {
          expected.push_back(ElementOf(name, row * kShape.columns + column));
          expected_bf16.push_back(BFloat16FromFloat(expected.back()));
        }
      }
      EXPECT_EQ(ReadFloats(checkpoint, name, kShape, slice), expected) << name;
      std::vector<uint16_t> bf16(slice.size());
      ASSERT_TRUE(checkpoint
                      .Read(name, kShape, slice, DType::kBF16,
                            {reinterpret_cast<std::byte*>(bf16.data()), bf16.size() * 2})
                      .ok());
      EXPECT_EQ(bf16, expected_bf16) << name;
    }
  }
}

TEST(Checkpoint, ReadsVectorsAsOneColumn) {
  const TempFolder folder;
  folder.Write("model.safetensors", SafetensorsBytes({MakeTensor("v", DType::kF32, {9}),
                                                      MakeTensor("w", DType::kF32, {9, 1})}));
  const Checkpoint checkpoint = Opened(folder);
  for (const std::string name : {"v", "w"}) {
    EXPECT_EQ(ReadFloats(checkpoint, name, {9, 1}, {{2, 4}, {0, 1}}),
              (std::vector<float>{ElementOf(name, 2), ElementOf(name, 3)}));
  }
}

TEST(Checkpoint, FollowsTheAliasesOfTheMetadata) {
  const TempFolder folder;
  folder.Write("model.safetensors", SafetensorsBytes({MakeTensor("lm_head", DType::kF32, {2, 3})},
                                                     {{"embed", "lm_head"}, {"dangling", "no"}}));
  const Checkpoint checkpoint = Opened(folder);
  EXPECT_TRUE(checkpoint.Has("lm_head"));
  EXPECT_TRUE(checkpoint.Has("embed"));
  EXPECT_FALSE(checkpoint.Has("dangling"));
  EXPECT_FALSE(checkpoint.Has("other"));
  EXPECT_EQ(ReadFloats(checkpoint, "embed", {2, 3}, {{1, 2}, {2, 3}}),
            std::vector<float>{ElementOf("lm_head", 5)});
}

TEST(Checkpoint, NamesFileTensorAndShapeOfWhatDoesNotFit) {
  const TempFolder folder;
  folder.Write("model.safetensors", SafetensorsBytes({MakeTensor("w", DType::kF32, {4, 6}),
                                                      MakeTensor("ids", DType::kI32, {4, 6})}));
  const Checkpoint checkpoint = Opened(folder);
  const auto message = [&](const std::string& name, MatrixShape shape, absl::StatusCode code) {
    const auto found = checkpoint.Find(name, shape);
    EXPECT_EQ(found.status().code(), code);
    std::vector<std::byte> out(shape.size() * 4);
    EXPECT_EQ(checkpoint.Read(name, shape, WholeOf(shape), DType::kF32, absl::MakeSpan(out)),
              found.status());
    return std::string(found.status().message());
  };
  EXPECT_EQ(message("w", {4, 6}, absl::StatusCode::kOk), "");
  EXPECT_THAT(message("gone", {4, 6}, absl::StatusCode::kNotFound),
              AllOf(HasSubstr(folder.PathOf("model.safetensors")), HasSubstr("\"gone\""),
                    HasSubstr("[4, 6]"), HasSubstr("missing")));
  for (const MatrixShape shape : {MatrixShape{6, 4}, {4, 5}, {24, 1}, {4, 1}}) {
    EXPECT_THAT(message("w", shape, absl::StatusCode::kInvalidArgument),
                AllOf(HasSubstr("model.safetensors"), HasSubstr("\"w\" has shape [4, 6]"),
                      HasSubstr(shape.columns == 1 ? absl::StrCat("accepted: [", shape.rows, "]")
                                                   : absl::StrCat("accepted: [", shape.rows, ", ",
                                                                  shape.columns, "]"))));
  }
  EXPECT_THAT(message("ids", {4, 6}, absl::StatusCode::kInvalidArgument),
              AllOf(HasSubstr("\"ids\" has dtype I32"), HasSubstr("accepted: F32, F16, BF16")));
}

TEST(Checkpoint, NamesTheFilesItLooksFor) {
  const TempFolder folder;
  EXPECT_THAT(Refusal(folder, absl::StatusCode::kNotFound),
              AllOf(HasSubstr(folder.path()), HasSubstr("model.safetensors"),
                    HasSubstr("model.safetensors.index.json")));
  folder.Write("model.safetensors", "short");
  EXPECT_THAT(Refusal(folder, absl::StatusCode::kInvalidArgument),
              HasSubstr(folder.PathOf("model.safetensors")));
}

TEST(Checkpoint, SaysWhyAFileCannotBeLookedAt) {
  const TempFolder folder;
  std::filesystem::create_symlink("model.safetensors", folder.PathOf("model.safetensors"));
  const auto opened = Checkpoint::Open(folder.path());
  EXPECT_THAT(std::string(opened.status().message()),
              AllOf(HasSubstr(folder.PathOf("model.safetensors")), HasSubstr("Too many levels")));
}

class ShardedCheckpoint : public ::testing::Test {
 protected:
  void WriteIndex(const std::string& weight_map) {
    folder_.Write(
        "model.safetensors.index.json",
        absl::StrCat("{\"metadata\":{\"total_size\":1},\"weight_map\":", weight_map, "}"));
  }

  const TempFolder folder_;
};

TEST_F(ShardedCheckpoint, ReadsEachTensorFromItsShard) {
  folder_.Write("one.safetensors", SafetensorsBytes({MakeTensor("a", DType::kF32, {2, 2}),
                                                     MakeTensor("b", DType::kBF16, {3, 1})}));
  folder_.Write("two.safetensors", SafetensorsBytes({MakeTensor("c", DType::kF16, {4, 2})}));
  WriteIndex(R"({"a":"one.safetensors","b":"one.safetensors","c":"two.safetensors"})");
  const Checkpoint checkpoint = Opened(folder_);
  EXPECT_EQ(ReadFloats(checkpoint, "a", {2, 2}, {{1, 2}, {0, 1}})[0], ElementOf("a", 2));
  EXPECT_EQ(ReadFloats(checkpoint, "b", {3, 1}, {{2, 3}, {0, 1}})[0], ElementOf("b", 2));
  EXPECT_EQ(ReadFloats(checkpoint, "c", {4, 2}, {{3, 4}, {1, 2}})[0], ElementOf("c", 7));
  const auto missing = checkpoint.Find("d", {1, 1});
  EXPECT_THAT(std::string(missing.status().message()),
              AllOf(HasSubstr("model.safetensors.index.json"), HasSubstr("\"d\"")));
}

TEST_F(ShardedCheckpoint, NamesTheShardThatIsMissing) {
  folder_.Write("one.safetensors", SafetensorsBytes({MakeTensor("a", DType::kF32, {2})}));
  WriteIndex(R"({"a":"one.safetensors","c":"two.safetensors"})");
  EXPECT_THAT(Refusal(folder_, absl::StatusCode::kNotFound),
              AllOf(HasSubstr(folder_.PathOf("two.safetensors")),
                    HasSubstr("model.safetensors.index.json")));
}

TEST_F(ShardedCheckpoint, NamesTheTensorThatItsShardLacks) {
  folder_.Write("one.safetensors", SafetensorsBytes({MakeTensor("a", DType::kF32, {2})}));
  WriteIndex(R"({"a":"one.safetensors","c":"one.safetensors"})");
  EXPECT_THAT(Refusal(folder_, absl::StatusCode::kNotFound),
              AllOf(HasSubstr("one.safetensors"), HasSubstr("no tensor \"c\"")));
}

TEST_F(ShardedCheckpoint, RefusesMalformedIndexes) {
  const auto refusal = [&](const std::string& index) {
    folder_.Write("model.safetensors.index.json", index);
    const std::string message = Refusal(folder_, absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(message, HasSubstr("model.safetensors.index.json"));
    return message;
  };
  EXPECT_THAT(refusal("{"), HasSubstr("not JSON"));
  EXPECT_THAT(refusal("[]"), HasSubstr("a JSON object"));
  EXPECT_THAT(refusal("{}"), HasSubstr("weight_map is missing"));
  EXPECT_THAT(refusal(R"({"weight_map":{}})"), HasSubstr("weight_map is {}"));
  EXPECT_THAT(refusal(R"({"weight_map":[1]})"), HasSubstr("weight_map is [1]"));
  for (const std::string file : {"\"../secret\"", "\"/etc/passwd\"", "\"..\"", "\"\"", "7"}) {
    EXPECT_THAT(refusal("{\"weight_map\":{\"w\":" + file + "}}"),
                AllOf(HasSubstr(file), HasSubstr("\"w\""), HasSubstr("a file of this folder")));
  }
}

}  // namespace
}  // namespace sluice
