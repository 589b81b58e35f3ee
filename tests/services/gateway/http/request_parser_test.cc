#include "services/gateway/http/request_parser.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace sluice::http {
namespace {

using State = RequestParser::State;

// The status that bytes are refused with; 0 where they are not.
int Refusal(const std::string& bytes) {
  for (const size_t piece : {bytes.size(), size_t{1}, size_t{7}}) {
    RequestParser parser((Limits()));
    for (size_t i = 0; i < bytes.size(); i += piece) parser.Feed(bytes.substr(i, piece));
    if (parser.state() == State::kFailed) return parser.failure().status;
  }
  return 0;
}

Request Parsed(const std::string& bytes) {
  RequestParser parser((Limits()));
  for (const char c : bytes) parser.Feed(std::string(1, c));
  EXPECT_EQ(parser.state(), State::kComplete) << bytes;
  return parser.state() == State::kComplete ? parser.TakeRequest() : Request();
}

std::string Get(const std::string& target) {
  return absl::StrCat("GET ", target, " HTTP/1.1\r\nhost: a.example\r\n\r\n");
}

TEST(RequestParserTest, AsksForOneHost) {
  EXPECT_EQ(Refusal("GET / HTTP/1.1\r\n\r\n"), 400);
  EXPECT_EQ(Refusal("GET / HTTP/1.1\r\nhost: a\r\nhost: a\r\n\r\n"), 400);
  EXPECT_EQ(Refusal("GET / HTTP/1.1\r\nhost: a b\r\n\r\n"), 400);
  EXPECT_EQ(Refusal("GET / HTTP/1.1\r\nhost: user@a\r\n\r\n"), 400);
  EXPECT_EQ(Refusal("GET / HTTP/1.1\r\nhost: \r\n\r\n"), 400);
  EXPECT_EQ(Refusal("GET / HTTP/1.1\r\nhost: a.example:80\r\n\r\n"), 0);
  EXPECT_EQ(Refusal("GET / HTTP/1.0\r\n\r\n"), 0);
}

TEST(RequestParserTest, DropsTrailers) {
  const Request request = Parsed(
      "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n"
      "authorization: Bearer stolen\r\nx-api-key: k\r\n\r\n");
  EXPECT_EQ(request.body, "hi");
  EXPECT_EQ(request.Header("authorization"), std::nullopt);
  EXPECT_EQ(request.Header("x-api-key"), std::nullopt);
}

TEST(RequestParserTest, RefusesCodingsThatItDoesNotDecode) {
  const auto post = [](const std::string& header) {
    return Refusal(absl::StrCat("POST / HTTP/1.1\r\nhost: a\r\n", header, "\r\n\r\n"));
  };
  EXPECT_EQ(post("transfer-encoding: gzip"), 501);
  EXPECT_EQ(post("transfer-encoding: gzip, chunked"), 501);
  EXPECT_EQ(post("transfer-encoding: chunked, gzip"), 501);
  EXPECT_EQ(post("transfer-encoding: unknown"), 501);
  EXPECT_EQ(post("transfer-encoding: identity\r\ntransfer-encoding: chunked"), 501);
  EXPECT_EQ(post("transfer-encoding: chunked\r\ncontent-length: 3"), 400);
  EXPECT_EQ(post("content-encoding: gzip"), 415);
  EXPECT_EQ(post("content-encoding: identity\r\ncontent-length: 0"), 0);
  EXPECT_EQ(post("Transfer-Encoding: Chunked"), 0);
  EXPECT_EQ(Refusal("POST / HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n"), 400);
}

TEST(RequestParserTest, ReadsTargetsInAllForms) {
  EXPECT_EQ(Parsed(Get("/v1/models/a%2Fb%20c?x=%41")).path, "/v1/models/a/b c");
  EXPECT_EQ(Parsed(Get("/v1/models?x=%41")).query, "x=%41");
  const Request absolute = Parsed(Get("http://B.example:81/v1/models?q"));
  EXPECT_EQ(absolute.path, "/v1/models");
  EXPECT_EQ(absolute.query, "q");
  EXPECT_EQ(absolute.authority, "B.example:81");
  EXPECT_EQ(HostOf(absolute.authority), "b.example");
  EXPECT_EQ(Parsed(Get("http://b.example")).path, "/");
  EXPECT_EQ(Parsed(Get("/")).authority, "a.example");
  EXPECT_EQ(Parsed("OPTIONS * HTTP/1.1\r\nhost: a\r\n\r\n").path, "*");
  for (const char* target : {"/%", "/%4", "/%zz", "/%00", "/%0a", "http:///x", "http://u@h/",
                             "b.example:80", "v1/models", "ftp://a/"}) {
    EXPECT_EQ(Refusal(Get(target)), 400) << target;
  }
}

TEST(RequestParserTest, ReadsOverEmptyLinesBeforeARequest) {
  EXPECT_EQ(Parsed("\r\n\r\n" + Get("/a")).path, "/a");
  RequestParser parser((Limits()));
  parser.Feed(Get("/a") + "\r\n" + Get("/b"));
  ASSERT_EQ(parser.state(), State::kComplete);
  EXPECT_EQ(parser.TakeRequest().path, "/a");
  ASSERT_EQ(parser.state(), State::kComplete);
  EXPECT_EQ(parser.TakeRequest().path, "/b");
}

TEST(RequestParserTest, KnowsTheHeadBeforeTheBody) {
  RequestParser parser((Limits()));
  parser.Feed("POST /x HTTP/1.1\r\nhost: a\r\ncontent-length: 100000\r\n\r\nab");
  ASSERT_EQ(parser.state(), State::kBody);
  EXPECT_EQ(parser.head().path, "/x");
  EXPECT_EQ(parser.num_body_bytes(), 100000);
  EXPECT_EQ(parser.num_held_bytes(), 2);
}

TEST(RequestParserTest, LimitsWhatStandsAroundChunks) {
  const std::string head = "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n";
  EXPECT_EQ(Refusal(head + "1;" + std::string(100'000, 'x')), 431);
  EXPECT_EQ(Refusal(head + "0\r\nx: " + std::string(100'000, 'x')), 431);
}

TEST(RequestParserTest, ABodyOfOneCarriageReturnIsABody) {
  EXPECT_EQ(Parsed("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\n\r\n\r").body, "\r");
}

}  // namespace
}  // namespace sluice::http
