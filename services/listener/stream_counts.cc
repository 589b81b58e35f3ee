#include "services/listener/stream_counts.h"

#include <grpc/grpc.h>
#include <grpc/support/alloc.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace sluice {
namespace {

constexpr intptr_t kMostAtOnce = 500;

std::string Take(char* json) {
  if (json == nullptr) return "";
  std::string text(json);
  gpr_free(json);
  return text;
}

// gRPC's JSON has no spaces, and numbers of 64 bits as strings. Reads what follows `"key":` after
// `at`, which it moves behind that.
std::optional<absl::string_view> Next(absl::string_view json, absl::string_view key, size_t* at) {
  const std::string wanted = absl::StrCat("\"", key, "\":");
  const size_t found = json.find(wanted, *at);
  if (found == absl::string_view::npos) return std::nullopt;
  absl::string_view value = json.substr(found + wanted.size());
  absl::ConsumePrefix(&value, "\"");
  value = value.substr(0, value.find_first_of("\",}"));
  *at = found + wanted.size();
  return value;
}

int64_t Number(absl::string_view json, absl::string_view key, size_t at = 0) {
  int64_t number = 0;
  const std::optional<absl::string_view> text = Next(json, key, &at);
  return text.has_value() && absl::SimpleAtoi(*text, &number) ? number : 0;
}

std::vector<int64_t> Numbers(absl::string_view json, absl::string_view key) {
  std::vector<int64_t> numbers;
  size_t at = 0;
  int64_t number = 0;
  while (const std::optional<absl::string_view> text = Next(json, key, &at)) {
    if (absl::SimpleAtoi(*text, &number)) numbers.push_back(number);
  }
  return numbers;
}

std::string KeyOf(absl::string_view peer, int64_t port) { return absl::StrCat(port, " ", peer); }

}  // namespace

int64_t StreamCounts::FindSocket(absl::string_view peer, int port) {
  auto found = sockets_.find(KeyOf(peer, port));
  if (found != sockets_.end()) return found->second;
  LookForNew();
  found = sockets_.find(KeyOf(peer, port));
  return found == sockets_.end() ? 0 : found->second;
}

void StreamCounts::Forget(absl::string_view peer, int port) { sockets_.erase(KeyOf(peer, port)); }

std::optional<ConnectionTable::Streams> StreamCounts::Of(int64_t socket) {
  const std::string json = Take(grpc_channelz_get_socket(socket));
  if (json.empty()) return std::nullopt;
  const auto count = [&](absl::string_view key) {
    return static_cast<uint64_t>(std::max<int64_t>(Number(json, key), 0));
  };
  const uint64_t failed = count("streamsFailed");
  return ConnectionTable::Streams{.started = count("streamsStarted"),
                                  .ended = count("streamsSucceeded") + failed,
                                  .failed = failed};
}

void StreamCounts::LookForNew() {
  for (const int64_t server : Numbers(Take(grpc_channelz_get_servers(0)), "serverId")) {
    int64_t& next = next_socket_[server];
    const std::string list = Take(grpc_channelz_get_server_sockets(server, next, kMostAtOnce));
    for (const int64_t socket : Numbers(list, "socketId")) {
      next = std::max(next, socket + 1);
      const std::string json = Take(grpc_channelz_get_socket(socket));
      // "chttp2 ipv4:10.0.0.7:5123"
      size_t at = 0;
      const absl::string_view name = Next(json, "name", &at).value_or("");
      const size_t local = json.find("\"local\":");
      if (local == std::string::npos) continue;
      sockets_[KeyOf(name.substr(name.rfind(' ') + 1), Number(json, "port", local))] = socket;
    }
  }
}

}  // namespace sluice
