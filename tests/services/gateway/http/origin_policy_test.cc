#include "services/gateway/http/origin_policy.h"

#include <gtest/gtest.h>

namespace sluice::http {
namespace {

Request From(const std::string& authority, const std::string& origin = "") {
  Request request;
  request.authority = authority;
  if (!origin.empty()) request.headers.emplace_back("origin", origin);
  return request;
}

TEST(OriginPolicyTest, TakesAddressesLocalhostAndKnownNames) {
  const OriginPolicy policy = {.checks_host = true, .hosts = {"chat.example"}};
  for (const char* host :
       {"127.0.0.1:8080", "localhost:8080", "LOCALHOST", "a.localhost", "[::1]:1", "[::1]",
        "192.0.2.7", "chat.example", "Chat.Example:443", ""}) {
    EXPECT_EQ(policy.Refusal(From(host)), std::nullopt) << host;
  }
  for (const char* host : {"evil.example", "localhost.evil.example", "127.0.0.1.evil.example",
                           "xlocalhost", "chat.example.evil", "[::1", ":8080"}) {
    EXPECT_NE(policy.Refusal(From(host)), std::nullopt) << host;
  }
  EXPECT_EQ((OriginPolicy{.checks_host = true, .hosts = {"*"}}.Refusal(From("a"))), std::nullopt);
  EXPECT_EQ(OriginPolicy().Refusal(From("any.example")), std::nullopt);
}

TEST(OriginPolicyTest, RefusesPagesOfOtherOrigins) {
  const OriginPolicy policy;
  EXPECT_EQ(policy.Refusal(From("a.example:8080", "http://a.example:8080")), std::nullopt);
  EXPECT_EQ(policy.Refusal(From("a.example", "https://a.example")), std::nullopt);
  for (const char* origin : {"http://evil.example", "http://a.example:81", "null", "file://"}) {
    EXPECT_NE(policy.Refusal(From("a.example", origin)), std::nullopt) << origin;
  }
  Request behind_proxy = From("127.0.0.1:8080", "https://chat.example");
  EXPECT_NE(policy.Refusal(behind_proxy), std::nullopt);
  behind_proxy.headers.emplace_back("sec-fetch-site", "same-origin");
  EXPECT_EQ(policy.Refusal(behind_proxy), std::nullopt);
}

TEST(OriginPolicyTest, TakesTheOriginThatIsAllowed) {
  const OriginPolicy policy = {.allowed_origin = "https://b.example"};
  EXPECT_EQ(policy.Refusal(From("a.example", "https://b.example")), std::nullopt);
  EXPECT_NE(policy.Refusal(From("a.example", "https://c.example")), std::nullopt);
  EXPECT_EQ(OriginPolicy{.allowed_origin = "*"}.Refusal(From("a", "https://c")), std::nullopt);
}

}  // namespace
}  // namespace sluice::http
