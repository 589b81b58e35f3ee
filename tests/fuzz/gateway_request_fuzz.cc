// What HTTP clients send: requests from bytes in pieces, and bodies as the APIs read them.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "services/gateway/http/request_parser.h"
#include "services/gateway/json/json_text.h"
#include "services/gateway/openai/chat_request.h"
#include "services/gateway/openai/completion_request.h"

namespace {

using sluice::http::RequestParser;

void ReadBody(absl::string_view body) {
  const auto json = sluice::gateway::ParseJson(body);
  if (!json.ok()) return;
  (void)sluice::gateway::ToJson(*json);
  (void)sluice::gateway::openai::ReadCompletionRequest(*json, body);
  (void)sluice::gateway::openai::ReadChatRequest(*json, body);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  ReadBody(bytes);
  // The first byte says how long the pieces are that the rest comes in.
  const size_t piece = data[0] + 1;
  RequestParser parser({.max_header_bytes = 4096, .max_body_bytes = 65536});
  for (size_t i = 1; i < size; i += piece) {
    parser.Feed(bytes.substr(i, piece));
    while (parser.state() == RequestParser::State::kComplete) {
      const sluice::http::Request request = parser.TakeRequest();
      if (request.body.size() > 65536) std::abort();
      ReadBody(request.body);
    }
  }
  return 0;
}
