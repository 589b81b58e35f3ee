#include "services/common/address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace sluice {
namespace {

using ::testing::HasSubstr;

TEST(CheckAddress, AcceptsEveryKind) {
  for (const char* address :
       {"127.0.0.1:8700", "localhost:1", "example.org:65535", "[::1]:8700", "[fe80::1]:0",
        "unix:/run/a", "unix:a", "inproc:x", "dns:example.org:1", "dns:///example.org:1"}) {
    EXPECT_TRUE(CheckAddress(address).ok()) << CheckAddress(address);
  }
}

TEST(CheckAddress, SaysHowItIsWritten) {
  for (const auto& [address, message] : {
           std::pair("8700", "\"8700\" has no port or no host: write HOST:PORT, such as"),
           std::pair("localhost", "has no port or no host"),
           std::pair(":8700", "has no host: write HOST:PORT, such as 127.0.0.1:8700"),
           std::pair("::1:8805", "without brackets: write HOST:PORT, such as [::1]:8805"),
           std::pair("http://127.0.0.1:8700",
                     "begins like a URL: write HOST:PORT, such as 127.0.0.1:8700"),
           std::pair("a:b:1", "more than one colon"),
           std::pair("host:", "has the port \"\""),
           std::pair("host:http", "has the port \"http\", which is not from 0 to 65535"),
           std::pair("host:65536", "not from 0 to 65535"),
           std::pair("host:+80", "has the port \"+80\""),
           std::pair("host: 80", "has the port \" 80\""),
           std::pair(" 127.0.0.1:80", "has the host \" 127.0.0.1\", which is no name or address"),
           std::pair("me@host:1", "write HOST:PORT, such as 127.0.0.1:1"),
           std::pair("*:80", "no name or address"),
           std::pair("[::1:8700", "no IPv6 address in its brackets"),
           std::pair("[x]:8700", "no IPv6 address in its brackets"),
           std::pair("unix:", "names no socket"),
           std::pair("", "empty address"),
       }) {
    const absl::Status status = CheckAddress(address);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << address;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  }
}

TEST(CheckListenAddress, WantsSocketsWhereOneCanBe) {
  const std::string folder = ::testing::TempDir();
  EXPECT_TRUE(CheckListenAddress("unix:" + folder + "/a").ok());
  EXPECT_TRUE(CheckListenAddress("unix:a").ok());
  EXPECT_TRUE(CheckListenAddress("0.0.0.0:0").ok());
  for (const auto& [address, message] :
       {std::pair<std::string, std::string>("8700", "write HOST:PORT"),
        {"unix:/nowhere/to/a", "is in the folder /nowhere/to, which is not there"},
        {"unix:" + std::string(108, 'x'), "a path of 108 bytes; accepted: at most 107"}}) {
    const absl::Status status = CheckListenAddress(address);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << address;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  }
}

}  // namespace
}  // namespace sluice
