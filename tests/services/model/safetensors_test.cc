#include "services/model/safetensors.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "services/model/json_fields.h"
#include "services/model/safetensors_writer.h"
#include "tests/services/model/model_folder.h"

namespace sluice {
namespace {

using ::sluice::testing::MakeTensor;
using ::sluice::testing::OwnedTensor;
using ::sluice::testing::SafetensorsBytes;
using ::sluice::testing::TempFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;

absl::StatusOr<TensorFileContents> Parse(const std::string& bytes) {
  return ParseSafetensors(
      absl::MakeConstSpan(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()),
      "some.safetensors");
}

// The message for a file that must be refused; it always names the file.
std::string FileRefusal(const std::string& bytes) {
  const auto parsed = Parse(bytes);
  if (parsed.ok()) return "accepted";
  EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(parsed.status().message()), HasSubstr("some.safetensors"));
  return std::string(parsed.status().message());
}

std::string Entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return absl::StrCat("\"", name, "\":{\"dtype\":\"", dtype, "\",\"shape\":", shape,
                      ",\"data_offsets\":", offsets, "}");
}

TEST(Safetensors, ReadsBackWhatTheWriterWrote) {
  const TempFolder folder;
  const std::vector<OwnedTensor> tensors = {
      MakeTensor("b", DType::kBF16, {3, 5}), MakeTensor("a", DType::kF32, {7}),
      MakeTensor("scalar", DType::kF16, {}), MakeTensor("nothing", DType::kF32, {4, 0}),
      MakeTensor("ids", DType::kI32, {2, 1, 3})};
  std::vector<TensorToWrite> to_write;
  for (const OwnedTensor& tensor : tensors) to_write.push_back(tensor.ToWrite());
  const std::string path = folder.PathOf("x.safetensors");
  ASSERT_TRUE(WriteSafetensors(path, to_write, {{"format", "pt"}, {"\"\u00e9", "\n"}}).ok());

  const auto file = OpenSafetensors(path);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->contents().tensors.size(), tensors.size());
  for (const OwnedTensor& tensor : tensors) {
    const StoredTensor* stored = file->Find(tensor.name);
    ASSERT_NE(stored, nullptr) << tensor.name;
    EXPECT_EQ(stored->type.dtype, tensor.dtype);
    EXPECT_EQ(stored->shape, tensor.shape);
    EXPECT_EQ(stored->bytes, absl::MakeConstSpan(tensor.bytes));
  }
  EXPECT_EQ(file->Find("c"), nullptr);
  EXPECT_EQ(file->contents().metadata,
            (std::map<std::string, std::string>{{"format", "pt"}, {"\"\u00e9", "\n"}}));
  EXPECT_FALSE(std::filesystem::exists(path + ".partial"));
}

TEST(Safetensors, WriterAlignsTheData) {
  for (size_t length = 1; length <= 16; ++length) {
    const OwnedTensor tensor = MakeTensor(std::string(length, 'x'), DType::kF32, {1});
    const std::string header = SafetensorsHeader({tensor.ToWrite()}, {});
    EXPECT_EQ(header.size() % 8, 0u) << length;
  }
}

TEST(Safetensors, WriterSaysWhereItCannotWrite) {
  const TempFolder folder;
  const auto status = WriteSafetensors(folder.PathOf("missing/x.safetensors"), {});
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("missing/x.safetensors"));
}

TEST(Safetensors, MovingTheFileKeepsItsTensors) {
  const TempFolder folder;
  const OwnedTensor tensor = MakeTensor("t", DType::kF32, {100});
  const std::string path = folder.Write("x.safetensors", SafetensorsBytes({tensor}));
  auto opened = OpenSafetensors(path);
  ASSERT_TRUE(opened.ok()) << opened.status();
  const TensorFile moved = *std::move(opened);
  EXPECT_EQ(moved.Find("t")->bytes, absl::MakeConstSpan(tensor.bytes));
  moved.Release(moved.Find("t")->bytes);  // released pages come back when read
  EXPECT_EQ(moved.Find("t")->bytes, absl::MakeConstSpan(tensor.bytes));
}

TEST(Safetensors, KeepsTypesItDoesNotComputeWith) {
  const auto parsed = Parse(SafetensorsBytes("{" + Entry("mask", "BOOL", "[3]", "[0,3]") + "," +
                                                 Entry("ids", "I64", "[1]", "[3,11]") + "}",
                                             std::string(11, 'x')));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_FALSE(parsed->tensors.at("mask").type.dtype.has_value());
  EXPECT_EQ(parsed->tensors.at("ids").type.size, 8);
}

TEST(Safetensors, AcceptsAnEmptyFileOfTensors) {
  EXPECT_TRUE(Parse(SafetensorsBytes("{}", "")).ok());
  EXPECT_TRUE(Parse(SafetensorsBytes("{}     ", "")).ok());
}

TEST(Safetensors, KnowsWhatGitLfsLeavesInPlaceOfAFile) {
  const TempFolder folder;
  const std::string pointer =
      "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 269060552\n";
  folder.Write("model.safetensors", pointer);
  const absl::Status status = OpenSafetensors(folder.PathOf("model.safetensors")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("is a Git LFS pointer"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("git lfs pull"));
  EXPECT_EQ(ReadTextFile(folder.PathOf("model.safetensors")).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(Safetensors, KnowsAWebPageInPlaceOfAFile) {
  const TempFolder folder;
  for (const char* page : {"<!DOCTYPE html><html>404</html>", "\n<HTML lang=en></HTML>"}) {
    const std::string path = folder.Write("model.safetensors", page);
    const absl::Status status = OpenSafetensors(path).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()), HasSubstr("is a web page"));
    EXPECT_EQ(ReadTextFile(path).status().code(), absl::StatusCode::kFailedPrecondition);
  }
}

TEST(Safetensors, RefusesWhatIsNoFile) {
  const TempFolder folder;
  const auto missing = OpenSafetensors(folder.PathOf("no.safetensors"));
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.status().message()), HasSubstr("no.safetensors"));
  EXPECT_EQ(OpenSafetensors(folder.path()).status().code(), absl::StatusCode::kInvalidArgument);
  const std::string fifo = folder.PathOf("fifo");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(OpenSafetensors(fifo).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(OpenSafetensors(folder.Write("empty", "")).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(Safetensors, RefusesEveryTruncationOfAValidFile) {
  const std::string whole =
      SafetensorsBytes({MakeTensor("a", DType::kF32, {2, 3}), MakeTensor("b", DType::kBF16, {5})});
  ASSERT_TRUE(Parse(whole).ok());
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_NE(FileRefusal(whole.substr(0, size)), "accepted") << size;
  }
  EXPECT_THAT(FileRefusal(whole + "x"), HasSubstr("bytes of data, its tensors end at"));
}

TEST(Safetensors, NamesTheTensorThatTruncationCut) {
  const std::string whole = SafetensorsBytes({MakeTensor("layer.weight", DType::kF32, {8})});
  EXPECT_THAT(FileRefusal(whole.substr(0, whole.size() - 1)),
              AllOf(HasSubstr("\"layer.weight\""), HasSubstr("[0, 32)"), HasSubstr("31 bytes"),
                    HasSubstr("truncated")));
}

TEST(Safetensors, RefusesAbsurdHeaderLengths) {
  std::string bytes = SafetensorsBytes({MakeTensor("a", DType::kF32, {2})});
  bytes.replace(0, 8, std::string(8, '\xff'));
  EXPECT_THAT(FileRefusal(bytes),
              HasSubstr("18446744073709551615 bytes; accepted: at most 100000000"));
  bytes.replace(0, 8, std::string("\0\x10\0\0\0\0\0\0", 8));
  EXPECT_THAT(FileRefusal(bytes), AllOf(HasSubstr("truncated"), HasSubstr("4096")));
  bytes.replace(0, 8, std::string(8, '\0'));
  EXPECT_THAT(FileRefusal(bytes), HasSubstr("not JSON"));
}

TEST(Safetensors, MetadataMayBeNull) {
  const auto contents = Parse(SafetensorsBytes("{\"__metadata__\":null}", ""));
  ASSERT_TRUE(contents.ok()) << contents.status();
  EXPECT_TRUE(contents->metadata.empty());
}

TEST(Safetensors, RefusesMalformedHeaders) {
  const auto refusal = [](const std::string& header, size_t data_size = 0) {
    return FileRefusal(SafetensorsBytes(header, std::string(data_size, 'x')));
  };
  EXPECT_THAT(refusal("{\n  \"a\": }"), HasSubstr("not JSON at line 2, column 8"));
  EXPECT_THAT(refusal("[1]"), HasSubstr("no JSON object"));
  EXPECT_THAT(refusal("{\"a\":3}"), AllOf(HasSubstr("\"a\""), HasSubstr("is 3")));
  EXPECT_THAT(refusal("{\"__metadata__\":[]}"), HasSubstr("__metadata__"));
  EXPECT_THAT(refusal("{\"__metadata__\":{\"k\":7}}"), HasSubstr("__metadata__.k is 7"));
  EXPECT_THAT(refusal(std::string(100, '[') + std::string(100, ']')), HasSubstr("nested deeper"));
  EXPECT_THAT(refusal("{\"\xff\":1}"), HasSubstr("not JSON"));
  const std::string twice =
      "{" + Entry("w", "F32", "[1]", "[0,4]") + "," + Entry("w", "F32", "[1]", "[4,8]") + "}";
  EXPECT_THAT(refusal(twice, 8), HasSubstr("the key \"w\" is there twice"));
}

TEST(Safetensors, RefusesBadTensorEntries) {
  const auto refusal = [](const std::string& dtype, const std::string& shape,
                          const std::string& offsets) {
    return FileRefusal(
        SafetensorsBytes("{" + Entry("w", dtype, shape, offsets) + "}", std::string(8, 'x')));
  };
  ASSERT_EQ(refusal("F32", "[2]", "[0,8]"), "accepted");
  EXPECT_THAT(refusal("F33", "[2]", "[0,8]"),
              AllOf(HasSubstr("\"w\""), HasSubstr("F33"), HasSubstr("accepted: BOOL, ")));
  EXPECT_THAT(refusal("F32", "[-2]", "[0,8]"), AllOf(HasSubstr("\"w\""), HasSubstr("shape [-2]")));
  EXPECT_THAT(refusal("F32", "[2.0]", "[0,8]"), HasSubstr("shape [2.0]"));
  EXPECT_THAT(refusal("F32", "2", "[0,8]"), HasSubstr("shape 2"));
  EXPECT_THAT(refusal("F32", "[4294967296,4294967296]", "[0,8]"), HasSubstr("64 bits"));
  EXPECT_THAT(refusal("F32", "[4611686018427387905]", "[0,8]"), HasSubstr("64 bits"));
  EXPECT_THAT(refusal("F32", "[3]", "[0,8]"),
              AllOf(HasSubstr("[0, 8)"), HasSubstr("[3]"), HasSubstr("takes 12")));
  EXPECT_THAT(refusal("F32", "[2]", "[0,12]"), HasSubstr("beyond the file's 8 bytes"));
  EXPECT_THAT(refusal("F32", "[2]", "[8,0]"), HasSubstr("[8, 0)"));
  EXPECT_THAT(refusal("F32", "[2]", "[0,8,9]"), HasSubstr("data_offsets"));
  EXPECT_THAT(refusal("F32", "[2]", "[-1,8]"), HasSubstr("data_offsets"));
  EXPECT_THAT(refusal("F32", "[2]", "[18446744073709551615,7]"), HasSubstr("data_offsets"));
  EXPECT_THAT(refusal("F32", "[2]", "[0,36893488147419103232]"), HasSubstr("data_offsets"));
  EXPECT_THAT(FileRefusal(SafetensorsBytes("{\"w\":{\"dtype\":\"F32\",\"shape\":[2]}}", "")),
              HasSubstr("no data_offsets"));
  EXPECT_THAT(FileRefusal(SafetensorsBytes("{\"w\":{\"shape\":[2]}}", "")),
              HasSubstr("dtype missing"));
}

TEST(Safetensors, RefusesOverlapsAndGaps) {
  const auto refusal = [](const std::string& first, const std::string& second) {
    return FileRefusal(SafetensorsBytes(
        "{" + Entry("one", "U8", "[4]", first) + "," + Entry("two", "U8", "[4]", second) + "}",
        std::string(8, 'x')));
  };
  ASSERT_EQ(refusal("[0,4]", "[4,8]"), "accepted");
  ASSERT_EQ(refusal("[4,8]", "[0,4]"), "accepted");
  EXPECT_THAT(refusal("[0,4]", "[3,7]"), AllOf(HasSubstr("\"two\""), HasSubstr("[3, 7)"),
                                               HasSubstr("overlap"), HasSubstr("\"one\"")));
  EXPECT_THAT(refusal("[0,4]", "[0,4]"), HasSubstr("overlap"));
  EXPECT_THAT(FileRefusal(SafetensorsBytes("{" + Entry("one", "U8", "[2]", "[0,2]") + "," +
                                               Entry("two", "U8", "[4]", "[4,8]") + "}",
                                           std::string(8, 'x'))),
              AllOf(HasSubstr("\"two\""), HasSubstr("gap"), HasSubstr("end at 2")));
  EXPECT_THAT(FileRefusal(SafetensorsBytes("{" + Entry("one", "U8", "[4]", "[4,8]") + "}",
                                           std::string(8, 'x'))),
              AllOf(HasSubstr("\"one\""), HasSubstr("gap"), HasSubstr("beginning")));
}

TEST(Safetensors, HoldsFilesOfATerabyte) {
  const TempFolder folder;
  constexpr uint64_t kSize = uint64_t{1} << 40;
  // A header of exactly 4096 bytes, padded with blanks.
  std::string header = "{" + Entry("huge", "F32", "[274877905920]", "[0,1099511623680]") + "," +
                       Entry("last", "U8", "[0]", "[1099511623680,1099511623680]") + "}";
  header.resize(4088, ' ');
  const std::string path = folder.Write("huge.safetensors", SafetensorsBytes(header, ""));
  if (truncate(path.c_str(), static_cast<off_t>(kSize)) != 0) {
    GTEST_SKIP() << "no sparse file of 2^40 bytes in " << folder.path();
  }
  void* const room =
      mmap(nullptr, kSize, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) {
    GTEST_SKIP() << "no 2^40 bytes of addresses in a row, as under ThreadSanitizer or ulimit -v: "
                 << std::strerror(errno);
  }
  munmap(room, kSize);
  const auto file = OpenSafetensors(path);
  ASSERT_TRUE(file.ok()) << file.status();
  const StoredTensor* huge = file->Find("huge");
  ASSERT_NE(huge, nullptr);
  EXPECT_EQ(huge->bytes.size(), kSize - 4096);
  EXPECT_EQ(huge->bytes.back(), std::byte{0});
}

TEST(Safetensors, NoMutationCrashesTheReader) {
  constexpr uint32_t kSeed = 20240611;
  const std::string valid = SafetensorsBytes(
      {MakeTensor("model.a", DType::kF32, {2, 3}), MakeTensor("model.b", DType::kBF16, {4}),
       MakeTensor("c", DType::kF16, {2, 2})},
      {{"format", "pt"}});
  std::mt19937 random(kSeed);
  int accepted = 0;
  int refused = 0;
  for (int round = 0; round < 20000; ++round) {
    SCOPED_TRACE(absl::StrCat("seed ", kSeed, " round ", round));
    std::string bytes = valid;
    for (uint32_t edits = 1 + random() % 4; edits > 0; --edits) {
      if (bytes.empty()) break;
      const size_t at = random() % bytes.size();
      switch (random() % 4) {
        case 0:
          bytes[at] = static_cast<char>(random());
          break;
        case 1:
          bytes[at] = "0123456789[]{},:\"-"[random() % 18];
          break;
        case 2:
          bytes.insert(at, 1, static_cast<char>(random()));
          break;
        default:
          bytes.erase(at, random() % 8 == 0 ? bytes.npos : 1);
      }
    }
    const auto parsed = Parse(bytes);
    if (!parsed.ok()) {
      ++refused;
      EXPECT_THAT(std::string(parsed.status().message()), HasSubstr("some.safetensors"));
      continue;
    }
    ++accepted;  // a flipped bit of data or a name: what is there must be readable
    size_t total = 0;
    for (const auto& [name, tensor] : parsed->tensors) {
      const std::vector<std::byte> copy(tensor.bytes.begin(), tensor.bytes.end());
      total += copy.size();
    }
    EXPECT_LE(total, bytes.size());
  }
  EXPECT_GT(accepted, 100);
  EXPECT_GT(refused, 10000);
}

}  // namespace
}  // namespace sluice
