#include "orchestrator/pipeline/process_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice {
namespace {

using ::testing::HasSubstr;

v1::GetTokenizerInfoResponse TokenizerOf(const std::string& digest) {
  v1::GetTokenizerInfoResponse info;
  info.set_tokenizer_digest(digest);
  return info;
}

TEST(CheckTokenizer, TakesTheOneOfItsOwnFolderAlone) {
  EXPECT_TRUE(CheckTokenizer(TokenizerOf("aa"), "aa").ok());
  for (const char* other : {"", "ab"}) {
    const absl::Status status = CheckTokenizer(TokenizerOf(other), "aa");
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()), HasSubstr("that of the orchestrator's model aa"));
  }
}

TEST(CheckTokenizer, TakesAnyWhereItHasNoneItself) {
  EXPECT_TRUE(CheckTokenizer(TokenizerOf("ab"), "").ok());
  EXPECT_TRUE(CheckTokenizer(TokenizerOf(""), "").ok());
}

TEST(CheckWeights, ComparesWithThoseThatAreReady) {
  std::vector<ReplicaProcess> processes(3);
  processes[0].weights_digest = "aa";
  processes[1].weights_digest = "ab";
  processes[2].weights_digest = "ab";
  EXPECT_TRUE(CheckWeights(processes, 0).ok());
  EXPECT_TRUE(CheckWeights(processes, 1).ok());  // the first one is not there yet
  processes[0].ready = true;
  processes[0].role = Role::kEmbedding;
  processes[0].address = "here:1";
  const absl::Status status = CheckWeights(processes, 2);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("than those of embedding at here:1 (aa)"));
}

}  // namespace
}  // namespace sluice
