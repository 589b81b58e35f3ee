#include "services/telemetry/otlp_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using Transport = OtlpEndpoint::Transport;

TEST(OtlpEndpoint, IsAnAddressWithOrWithoutAScheme) {
  const struct {
    const char* text;
    const char* address;
    Transport transport;
  } cases[] = {
      {"collector:4317", "collector:4317", Transport::kByAddress},
      {"[::1]:4317", "[::1]:4317", Transport::kByAddress},
      {"unix:/run/otel.sock", "unix:/run/otel.sock", Transport::kByAddress},
      {"http://collector:4000", "collector:4000", Transport::kPlaintext},
      {"http://collector:4000/", "collector:4000", Transport::kPlaintext},
      {"http://collector", "collector:4317", Transport::kPlaintext},
      {"https://[2001:db8::1]", "[2001:db8::1]:4317", Transport::kTls},
      {"https://collector.example.org:443", "collector.example.org:443", Transport::kTls},
  };
  for (const auto& wanted : cases) {
    const auto endpoint = ParseOtlpEndpoint(wanted.text);
    ASSERT_TRUE(endpoint.ok()) << endpoint.status();
    EXPECT_EQ(endpoint->address, wanted.address);
    EXPECT_EQ(endpoint->transport, wanted.transport) << wanted.text;
  }
}

TEST(OtlpEndpoint, RefusesWhatIsNoneSayingWhatIs) {
  for (const char* text : {"", "collector", "collector:70000", "http://", "http:///v1/traces",
                           "http://collector:4318/v1/traces", "ftp://collector:1", "inproc:x"}) {
    const auto endpoint = ParseOtlpEndpoint(text);
    EXPECT_EQ(endpoint.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(endpoint.status().message()), HasSubstr("accepted: HOST:PORT"));
  }
}

TEST(KeyValues, AreReadAsTheSpecificationWritesThem) {
  EXPECT_THAT(*ParseKeyValues(""), IsEmpty());
  EXPECT_THAT(*ParseKeyValues("a=1, b = two%20words%2C ,c=x=y,"),
              ElementsAre(Pair("a", "1"), Pair("b", "two words,"), Pair("c", "x=y")));
  EXPECT_THAT(*ParseKeyValues("a=1,a=2"), ElementsAre(Pair("a", "2")));
}

TEST(KeyValues, RefuseWhatIsNone) {
  for (const char* text : {"a", "=1", "a=%4", "a=%zz", "a=1,b"}) {
    EXPECT_EQ(ParseKeyValues(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

}  // namespace
}  // namespace sluice
