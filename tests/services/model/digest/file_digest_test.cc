#include "services/model/digest/file_digest.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <string>

#include "tests/services/model/model_folder.h"

namespace sluice {
namespace {

std::string Bytes(size_t size) {
  std::string bytes(size, '\0');
  uint32_t state = 1;
  for (char& byte : bytes) {
    state = state * 1664525 + 1013904223;
    byte = static_cast<char>(state >> 24);
  }
  return bytes;
}

const std::function<void(uint64_t)> kNobody;

// FIPS 180-4, of "abc".
TEST(TextDigest, IsSha256) {
  EXPECT_EQ(TextDigest("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

std::string FromHex(const std::string& digits) {
  std::string bytes;
  for (size_t i = 0; i < digits.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

TEST(FileDigest, IsOfTheDigestsOfItsRunsWithAnyNumberOfThreads) {
  const testing::TempFolder folder;
  const std::string bytes = Bytes(2 * kDigestRunBytes + 12345);
  const std::string path = folder.Write("file", bytes);
  std::string runs;
  for (size_t begin = 0; begin < bytes.size(); begin += kDigestRunBytes) {
    runs += FromHex(TextDigest(bytes.substr(begin, kDigestRunBytes)));
  }
  for (const int threads : {1, 2, 7}) {
    std::atomic<uint64_t> reported = 0;
    const auto digest = FileDigest(path, threads, [&](uint64_t part) { reported += part; });
    ASSERT_TRUE(digest.ok()) << digest.status();
    EXPECT_EQ(*digest, TextDigest(runs));
    EXPECT_EQ(reported, bytes.size());
  }
}

TEST(FileDigest, OfAnEmptyFileIsThatOfNoRuns) {
  const testing::TempFolder folder;
  EXPECT_EQ(*FileDigest(folder.Write("file", ""), 2, kNobody), TextDigest(""));
}

TEST(FileDigest, NamesAFileThatIsNotThere) {
  const absl::Status status = FileDigest("/nowhere/file", 1, kNobody).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_NE(status.message().find("/nowhere/file"), std::string::npos);
}

}  // namespace
}  // namespace sluice
