#include "services/listener/listening_socket.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

std::string PathOf(const std::string& name) {
  return absl::StrCat(::testing::TempDir(), "/", name, "-", getpid());
}

TEST(Listen, FindsAFreePort) {
  for (const char* address : {"127.0.0.1:0", "localhost:0", "0.0.0.0:0", "dns:///127.0.0.1:0"}) {
    const auto listening = Listen(address);
    ASSERT_TRUE(listening.ok()) << listening.status();
    EXPECT_GT(listening->port, 0) << address;
    EXPECT_FALSE(listening->sockets.empty());
  }
}

TEST(Listen, RefusesAPortInUse) {
  const auto first = Listen("127.0.0.1:0");
  ASSERT_TRUE(first.ok());
  const auto second = Listen(absl::StrCat("127.0.0.1:", first->port)).status();
  EXPECT_EQ(second.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(second.message(), absl::StrCat("cannot listen on 127.0.0.1:", first->port,
                                           ": the address is in use or not one of this host"));
}

TEST(Listen, RefusesAHostThatIsNotThisOne) {
  EXPECT_EQ(Listen("192.0.2.1:0").status().code(), absl::StatusCode::kUnavailable);
}

TEST(Listen, ReplacesTheSocketOfAProcessThatDiedButNoOtherFile) {
  const std::string path = PathOf("socket");
  {
    auto listening = Listen("unix:" + path);
    ASSERT_TRUE(listening.ok()) << listening.status();
    EXPECT_TRUE(Listen("unix:" + path).ok());
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  std::ofstream(path) << "a file";
  EXPECT_EQ(Listen("unix:" + path).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(std::filesystem::exists(path));
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace sluice
