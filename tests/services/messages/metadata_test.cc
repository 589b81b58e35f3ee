#include "services/messages/metadata.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(MetadataTest, RefusesWhatGrpcAbortsFor) {
  for (const char* value : {"Bearer \xff", "Bearer a\tb", "tok\xc3\xa9n", "a\nb", "\x7f"}) {
    grpc::ClientContext context;
    EXPECT_FALSE(IsMetadataValue(value));
    const absl::Status status = AddMetadata(context, "authorization", value);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("authorization"));
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr(value)));
  }
}

TEST(MetadataTest, AddsPrintableTextsAndBytesUnderBinaryKeys) {
  grpc::ClientContext context;
  EXPECT_TRUE(AddMetadata(context, "authorization", "Bearer ~!token ").ok());
  EXPECT_TRUE(AddMetadata(context, "key", "").ok());
  EXPECT_TRUE(AddMetadata(context, "refusal-bin", "\xff\n").ok());
}

TEST(MetadataTest, RefusesKeysThatAreNone) {
  for (const char* key : {"", "Authorization", "a b", "a:b", "\xff"}) {
    grpc::ClientContext context;
    EXPECT_FALSE(AddMetadata(context, key, "value").ok()) << key;
  }
}

}  // namespace
}  // namespace sluice
