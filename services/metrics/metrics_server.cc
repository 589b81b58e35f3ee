#include "services/metrics/metrics_server.h"

#include <prometheus/exposer.h>

#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

constexpr size_t kThreads = 1;

}  // namespace

MetricsServer::MetricsServer() = default;

MetricsServer::~MetricsServer() = default;

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Start(
    const std::string& address, std::vector<std::shared_ptr<prometheus::Collectable>> sources) {
  auto server = std::unique_ptr<MetricsServer>(new MetricsServer());
  server->sources_ = std::move(sources);
  // The library says by an exception what it can't bind.
  try {
    server->exposer_ = std::make_unique<prometheus::Exposer>(address, kThreads);
  } catch (const std::exception& error) {
    return absl::UnavailableError(
        absl::StrCat("cannot serve metrics on ", address, ": ", error.what()));
  }
  for (const auto& source : server->sources_) server->exposer_->RegisterCollectable(source);
  return server;
}

int MetricsServer::port() const { return exposer_->GetListeningPorts().front(); }

}  // namespace sluice
