// Maps paths to handlers. Filled before the server starts, constant from then on.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "services/gateway/http/exchange.h"

namespace sluice::http {

class Router {
 public:
  using ErrorResponse = std::function<Response(int status, absl::string_view message)>;

  // `error_response` spells 404 and 405.
  explicit Router(ErrorResponse error_response) : error_response_(std::move(error_response)) {}

  // A path that ends with "/*" stands for all that begin so. GET serves HEAD as well.
  void Add(absl::string_view method, absl::string_view path, Handler handler);

  void Serve(std::shared_ptr<Exchange> exchange) const;

 private:
  using Methods = std::map<std::string, Handler>;

  const Methods* Find(const std::string& path) const;

  const ErrorResponse error_response_;
  std::map<std::string, Methods> paths_;
  std::map<std::string, Methods> prefixes_;
};

}  // namespace sluice::http
