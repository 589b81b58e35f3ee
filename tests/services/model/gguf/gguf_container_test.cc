#include "services/model/gguf/gguf_container.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/services/model/gguf_bytes.h"

namespace sluice::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint32_t kF32Type = 0, kQ8Type = 8, kIq2Xs = 17;

absl::StatusOr<GgufContents> ParseBytes(const std::string& bytes) {
  return ParseGguf(
      absl::MakeConstSpan(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()),
      "x.gguf");
}

std::string ParseRefusal(const std::string& bytes) {
  return std::string(ParseBytes(bytes).status().message());
}

GgufBytes Small() {
  GgufBytes bytes;
  bytes.Text("a.text", "words").Int("an.int", 7).Bool("a.bool", true).Number("a.number", 0.5f);
  bytes.Texts("texts", {"x", "", "yz"}).Ints("ints", {-1, 2});
  return bytes.Tensor("t", {2, 3}, kF32Type, std::string(24, '\1'))
      .Tensor("u", {1, 32}, kQ8Type, std::string(34, '\2'));
}

TEST(GgufContainer, ReadsValuesAndTensors) {
  const std::string bytes = Small().Build();
  const auto contents = ParseBytes(bytes);
  ASSERT_TRUE(contents.ok()) << contents.status();
  const GgufMetadata& metadata = contents->metadata;
  EXPECT_EQ(metadata.at("a.text").Text(), "words");
  EXPECT_EQ(metadata.at("an.int").Int(), 7);
  EXPECT_EQ(metadata.at("an.int").Number(), 7.0);
  EXPECT_EQ(metadata.at("a.bool").Bool(), true);
  EXPECT_EQ(metadata.at("a.number").Number(), 0.5);
  EXPECT_THAT(*metadata.at("texts").Texts(), ElementsAre("x", "", "yz"));
  EXPECT_THAT(*metadata.at("ints").Ints(), ElementsAre(-1, 2));
  const GgufTensor& tensor = contents->tensors.at("t");
  EXPECT_THAT(tensor.shape, ElementsAre(2, 3));
  EXPECT_EQ(tensor.bytes.size(), 24);
  EXPECT_EQ(contents->tensors.at("u").bytes[33], std::byte{2});
}

TEST(GgufContainer, AnswersNothingForAnotherType) {
  const std::string bytes = Small().Build();
  const auto contents = ParseBytes(bytes);
  ASSERT_TRUE(contents.ok()) << contents.status();
  EXPECT_EQ(contents->metadata.at("a.text").Int(), std::nullopt);
  EXPECT_EQ(contents->metadata.at("an.int").Text(), std::nullopt);
  EXPECT_EQ(contents->metadata.at("texts").Text(), std::nullopt);
  EXPECT_EQ(contents->metadata.at("texts").Ints(), std::nullopt);
  EXPECT_EQ(contents->metadata.at("ints").Texts(), std::nullopt);
}

// Whatever a file is cut to, it is refused: by its header, by a key, or by the tensor that is cut.
TEST(GgufContainer, RefusesEveryTruncation) {
  const std::string bytes = Small().Build();
  const size_t padding = 32 - 34 % 32;  // behind the last tensor
  for (size_t size = 0; size < bytes.size() - padding; ++size) {
    EXPECT_FALSE(ParseBytes(bytes.substr(0, size)).ok()) << size;
  }
  EXPECT_TRUE(ParseBytes(bytes.substr(0, bytes.size() - padding)).ok());
  EXPECT_THAT(ParseRefusal(bytes.substr(0, bytes.size() - padding - 1)),
              HasSubstr("x.gguf: tensor \"u\" takes 34 bytes from 32 on, beyond the file's 65"));
}

TEST(GgufContainer, RefusesOtherVersions) {
  EXPECT_TRUE(ParseBytes(Small().Build(2)).ok());
  EXPECT_THAT(ParseRefusal(Small().Build(1)), HasSubstr("is of GGUF version 1; accepted: 2, 3"));
  EXPECT_THAT(ParseRefusal(Small().Build(0x03000000)), HasSubstr("is big-endian"));
  EXPECT_THAT(ParseRefusal("GGML" + std::string(40, '\0')),
              HasSubstr("does not begin as GGUF files do"));
}

TEST(GgufContainer, RefusesWhatIsThereTwice) {
  EXPECT_THAT(ParseRefusal(GgufBytes().Int("k", 1).Int("k", 2).Build()),
              HasSubstr("the key \"k\" twice"));
  GgufBytes twice;
  twice.Floats("t", {8}).Floats("t", {8});
  EXPECT_THAT(ParseRefusal(twice.Build()), HasSubstr("the tensor \"t\" twice"));
}

TEST(GgufContainer, RefusesBlockFormatsByName) {
  const auto refused =
      ParseBytes(GgufBytes().Tensor("t", {256}, kIq2Xs, std::string(74, '\0')).Build());
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("tensor \"t\" is stored as IQ2_XS; accepted: F32, F16, BF16, Q4_0"));
  EXPECT_THAT(
      ParseRefusal(GgufBytes().Tensor("t", {2, 33}, kQ8Type, std::string(80, '\0')).Build()),
      HasSubstr("has rows of 33 weights in Q8_0; accepted: multiples of 32"));
}

TEST(GgufContainer, RefusesShapesBeyondTheFile) {
  const uint64_t huge = uint64_t{1} << 40;
  EXPECT_THAT(ParseRefusal(GgufBytes().Tensor("t", {huge, huge}, kF32Type, "").Build()),
              HasSubstr("more than 64 bits can count"));
  EXPECT_THAT(ParseRefusal(GgufBytes().Tensor("t", {1, 1, 1, 1, 1}, kF32Type, "abcd").Build()),
              HasSubstr("has 5 dimensions; accepted: 1 to 4"));
}

// An index whose second tensor overlaps the first, or leaves a gap behind it.
TEST(GgufContainer, RefusesOffsetsThatLie) {
  for (const uint64_t offset : {0, 8, 64}) {
    std::string bytes = GgufBytes().Floats("t", {8}).Floats("u", {8}).Build();
    const size_t at = bytes.find(GgufText("u")) + GgufText("u").size() + 4 + 8 + 4;
    bytes.replace(at, 8, BytesOf(offset));
    EXPECT_THAT(ParseRefusal(bytes), HasSubstr("of the data; accepted: ")) << offset;
  }
}

TEST(GgufContainer, RefusesCountsAndTypesThatLie) {
  std::string many = Small().Build();
  many.replace(8, 8, BytesOf(uint64_t{1} << 60));
  EXPECT_THAT(ParseRefusal(many), HasSubstr("tensors and 6 values by its header"));
  const std::string list =
      "GGUF" + BytesOf(3) + BytesOf<uint64_t>(0) + BytesOf<uint64_t>(1) + GgufText("k");
  EXPECT_THAT(ParseRefusal(list + BytesOf(9) + BytesOf(8) + BytesOf(uint64_t{1} << 60)),
              HasSubstr("key \"k\" has a value that is damaged or reaches beyond"));
  EXPECT_THAT(ParseRefusal(list + BytesOf(13) + BytesOf(8)), HasSubstr("has a value of type 13"));
}

TEST(GgufContainer, HonoursAlignment) {
  EXPECT_THAT(ParseRefusal(GgufBytes().Int("general.alignment", 24).Floats("t", {8}).Build()),
              HasSubstr("general.alignment is 24; accepted: a power of two"));
  EXPECT_TRUE(ParseBytes(GgufBytes().Int("general.alignment", 32).Floats("t", {8}).Build()).ok());
}

}  // namespace
}  // namespace sluice::testing
