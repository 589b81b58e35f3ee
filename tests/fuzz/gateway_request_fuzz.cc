// What HTTP clients send, through a whole gateway and a gRPC channel to an orchestrator that
// answers everything: requests from bytes in pieces, bodies of every path, and header values that
// become metadata.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "kernels/check.h"
#include "services/gateway/gateway_server.h"
#include "services/gateway/http/request_parser.h"
#include "services/process/log.h"
#include "tests/testing/fake_orchestrator.h"
#include "tests/testing/http_client.h"

namespace {

using sluice::gateway::GatewayServer;
using sluice::http::RequestParser;
using sluice::testing::FakeOrchestrator;
using sluice::testing::HttpClient;

constexpr const char* kPaths[] = {"/v1/completions",
                                  "/v1/chat/completions",
                                  "/v1/responses",
                                  "/v1/messages",
                                  "/v1/messages/count_tokens",
                                  "/tokenize",
                                  "/detokenize",
                                  "/v1/score"};
constexpr const char* kHeaders[] = {"authorization", "x-api-key", "traceparent", "tracestate",
                                    "x-request-id",  "origin",    "host"};

void Parse(absl::string_view bytes, size_t piece) {
  RequestParser parser({.max_header_bytes = 4096, .max_body_bytes = 65536});
  for (size_t i = 0; i < bytes.size(); i += piece) {
    parser.Feed(bytes.substr(i, piece));
    while (parser.state() == RequestParser::State::kComplete) {
      if (parser.TakeRequest().body.size() > 65536) std::abort();
    }
  }
}

// Sends the bytes, and reads until the gateway has answered what is to be answered.
std::string Exchange(const std::string& address, absl::string_view bytes) {
  // Ports of connections that have ended are taken for a minute: another address has others.
  static unsigned number = 0;
  ++number;
  HttpClient client(address, absl::StrCat("127.", 1 + (number >> 16) % 250, ".",
                                          (number >> 8) % 256, ".", 1 + number % 254));
  client.Send(bytes);
  client.HalfClose();
  return client.ReadAll();
}

std::string Post(const char* path, absl::string_view headers, absl::string_view body) {
  return absl::StrCat("POST ", path, " HTTP/1.1\r\n", headers, "content-length: ", body.size(),
                      "\r\n\r\n", body);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static auto& orchestrator = *new FakeOrchestrator;
  // Two models, so that bodies are searched for their names as well.
  static auto& gateway =
      *GatewayServer::Start(
           {.models = {{.name = "model", .orchestrators = {orchestrator.Channel()}},
                       {.name = "other", .orchestrators = {orchestrator.Channel()}}},
            .listen = "127.0.0.1:0"})
           ->release();
  static const bool is_quiet = [] {
    sluice::SetMinimumLogLevel(sluice::LogLevel::kError);  // of callers who are refused
    return true;
  }();
  if (size == 0 || !is_quiet) return 0;
  // The first byte says how long the pieces are that the rest comes in, the path and the header.
  const absl::string_view bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  Parse(bytes, size_t{data[0]} + 1);
  const std::string& address = gateway.address();
  Exchange(address, bytes);
  const char* const path = kPaths[data[0] % std::size(kPaths)];
  const std::string answer = Exchange(address, Post(path, "host: localhost\r\n", bytes));
  SLUICE_CHECK(!answer.empty());
  const char* const header = kHeaders[data[0] % std::size(kHeaders)];
  const std::string value = absl::StrReplaceAll(bytes, {{"\r", ""}, {"\n", ""}});
  Exchange(address, Post(path, absl::StrCat("host: localhost\r\n", header, ": ", value, "\r\n"),
                         R"({"prompt": "a", "messages": [{"role": "user", "content": "u"}],)"
                         R"( "max_tokens": 1})"));
  return 0;
}
