#include "services/gateway/http/router.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

namespace sluice::http {

void Router::Add(absl::string_view method, absl::string_view path, Handler handler) {
  const bool is_prefix = absl::ConsumeSuffix(&path, "*");
  (is_prefix ? prefixes_ : paths_)[std::string(path)].emplace(std::string(method),
                                                              std::move(handler));
}

const Router::Methods* Router::Find(const std::string& path) const {
  if (const auto exact = paths_.find(path); exact != paths_.end()) return &exact->second;
  for (const auto& [prefix, methods] : prefixes_) {
    if (absl::StartsWith(path, prefix)) return &methods;
  }
  return nullptr;
}

void Router::Serve(std::shared_ptr<Exchange> exchange) const {
  const Request& request = exchange->request();
  const Methods* methods = Find(request.path);
  if (methods == nullptr) {
    return exchange->Respond(error_response_(
        404, absl::StrCat("Invalid URL (", request.method, " ", request.path, ")")));
  }
  const auto handler = methods->find(request.method == "HEAD" ? "GET" : request.method);
  if (handler != methods->end()) return handler->second(std::move(exchange));
  const std::string allowed =
      absl::StrJoin(*methods, ", ", [](std::string* out, const auto& m) { *out += m.first; });
  Response response = error_response_(
      405, absl::StrCat(request.path, " takes ", allowed, ", not ", request.method));
  response.headers.emplace_back("allow", allowed);
  exchange->Respond(std::move(response));
}

}  // namespace sluice::http
