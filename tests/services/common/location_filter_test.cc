#include "services/common/location_filter.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace sluice {
namespace {

TEST(LocationFilter, TakesOutWhateverLooksLikeALocation) {
  const LocationFilter filter;
  for (const auto& [text, expected] : std::vector<std::pair<std::string, std::string>>{
           {"", ""},
           {"it hangs", "it hangs"},
           {"shard 0/1 at unix:/tmp/sluice-ab12cd/shard-0-1: Socket closed",
            "shard 0/1: Socket closed"},
           {"sampler at inproc:sampler ended its stream", "sampler ended its stream"},
           {"failed to connect to all addresses; last error: UNKNOWN: "
            "unix:/tmp/sluice-ab12cd/x: No such file or directory",
            "failed to connect to all addresses; last error: UNKNOWN: [location]: No such file or "
            "directory"},
           {"last error: UNKNOWN: ipv4:127.0.0.1:8700: Failed to connect to remote host: "
            "Connection refused",
            "last error: UNKNOWN: [location]: Failed to connect to remote host: Connection "
            "refused"},
           {"UNAVAILABLE: ipv6:%5B::1%5D:70: lost", "UNAVAILABLE: [location]: lost"},
           {"DNS resolution failed for sluice-shard-0.sluice:9010: Domain name not found",
            "DNS resolution failed for [location]: Domain name not found"},
           {"peer [2001:db8::1]:9000 left", "peer [location] left"},
           {"10.1.2.3 and 10.1.2.3:80", "[location] and [location]"},
           {"\"/srv/models/x/model.safetensors\" can't be read to its end",
            "\"[location]\" can't be read to its end"},
           {"it belongs to the orchestrator node-7/127.0.0.1:8700",
            "it belongs to the orchestrator [location]"},
           {"the orchestrator node-7/unix:/run/x", "the orchestrator [location]"},
           {"a path=/etc/x, and (/etc/y).", "a path=[location], and ([location])."}}) {
    EXPECT_EQ(filter.WithoutAny(text), expected);
  }
}

TEST(LocationFilter, LeavesWhatIsNone) {
  const LocationFilter filter;
  for (const char* text :
       {"step 5: 3 of 4", "rank 0/2", "epoch 17 is not newer than the current epoch 18",
        "1.5s, 2.25s", "version 1.2.3", "line 3, column 7", "and/or", "a / b", "12:30", "x:1",
        "row 7 of step 9: NaN"}) {
    EXPECT_EQ(filter.WithoutAny(text), text);
  }
}

TEST(LocationFilter, TakesKnownOnesOutOfEveryText) {
  const LocationFilter filter({"unix:/run/s/tokenizer", "alpha:9", "/srv/model", ""});
  EXPECT_EQ(filter.WithoutKnown("the tokenizer at unix:/run/s/tokenizer does not answer"),
            "the tokenizer does not answer");
  EXPECT_EQ(filter.WithoutKnown("shard at alpha:9: lost"), "shard: lost");
  EXPECT_EQ(filter.WithoutKnown("alpha:99 is another"), "alpha:99 is another");
  EXPECT_EQ(filter.WithoutKnown("/srv/model/chat_template.jinja:3:4: no"), "[location]:3:4: no");
  EXPECT_EQ(filter.WithoutKnown("/srv/models is another"), "/srv/models is another");
}

TEST(LocationFilter, QuotesOfARequestStayWhereTheStatusIsAboutTheRequest) {
  const LocationFilter filter({"unix:/run/s/sampler"});
  const absl::Status asked =
      absl::InvalidArgumentError("/properties/a/type is \"file\"; host 10.0.0.1:80");
  EXPECT_EQ(filter.ForClient(asked), asked);
  const absl::Status lost = filter.ForClient(absl::UnavailableError("10.0.0.1:80: closed"));
  EXPECT_EQ(lost, absl::UnavailableError("[location]: closed"));
  EXPECT_EQ(filter.ForClient(absl::FailedPreconditionError("sampler at unix:/run/s/sampler: no")),
            absl::FailedPreconditionError("sampler: no"));
  EXPECT_TRUE(filter.ForClient(absl::OkStatus()).ok());
}

TEST(LocationFilter, KeepsPayloads) {
  absl::Status status = absl::UnavailableError("/tmp/x is full");
  status.SetPayload("type/a", absl::Cord("b"));
  EXPECT_EQ(LocationFilter().ForClient(status).GetPayload("type/a"), absl::Cord("b"));
}

}  // namespace
}  // namespace sluice
