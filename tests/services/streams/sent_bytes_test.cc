#include "services/streams/sent_bytes.h"

#include <gtest/gtest.h>

#include <string>

#include "sluice/v1/stage.pb.h"

namespace sluice {
namespace {

uint64_t SentOf(const std::string& message) {
  for (const SentBytes& sent : AllSentBytes()) {
    if (sent.message == message) return sent.bytes;
  }
  return 0;
}

TEST(SentBytes, CountsMessagesByTypeAsTheyWereWritten) {
  v1::PushRequest request;
  request.mutable_step()->mutable_hidden()->set_data(std::string(1000, 'x'));
  const std::string written = request.SerializeAsString();
  ASSERT_GT(written.size(), 1000u);
  const uint64_t before = SentOf("PushRequest");
  CountSent(request);
  CountSent(request);
  EXPECT_EQ(SentOf("PushRequest") - before, 2 * written.size());
  EXPECT_EQ(SentOf("PushResponse"), 0u);
}

}  // namespace
}  // namespace sluice
