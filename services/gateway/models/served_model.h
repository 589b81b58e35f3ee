// One of the models behind the gateway: its orchestrators, what is known of it, and all paths as they
// are served with it. Thread-safe once its paths were added.
#pragma once

#include <grpcpp/channel.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "services/gateway/api/api_call.h"
#include "services/gateway/api/body_reader.h"
#include "services/gateway/api/output_styles.h"
#include "services/gateway/backend/backend.h"
#include "services/gateway/backend/vocabulary.h"
#include "services/gateway/http/router.h"
#include "services/gateway/openai/error.h"
#include "services/gateway/tool_calls/format.h"
#include "services/telemetry/tracer.h"

namespace sluice::gateway {

struct ServedModelOptions {
  std::string
      name;  // that requests ask for; empty: the only one, whatever its orchestrators call it
  bool sleeps = false;  // may be without processes, until its host is asked to wake it
  // At least one, unless `discover` finds them.
  std::vector<std::shared_ptr<grpc::Channel>> orchestrators;
  std::function<std::vector<Orchestrator>()> discover = nullptr;  // BackendOptions'

  BackendOptions WithDiscovery(BackendOptions backend) const {
    backend.discover = discover;
    return backend;
  }
};

struct ServedModel {
  // Borrows reader and tracer, which may be null.
  ServedModel(ServedModelOptions options, BackendOptions backend_options,
              std::optional<ToolFormat> tool_format, BodyReader* reader, Tracer* tracer)
      : name(std::move(options.name)),
        sleeps(options.sleeps),
        backend(options.orchestrators, options.WithDiscovery(std::move(backend_options))),
        vocabulary(&backend),
        output_styles(&backend, tool_format),
        context{backend, vocabulary, output_styles, *reader, tracer} {}

  const std::string name;
  const bool sleeps;
  Backend backend;
  Vocabulary vocabulary;
  OutputStyles output_styles;
  const ApiContext context;
  http::Router router{
      [](int status, absl::string_view message) { return openai::ErrorResponse(status, message); }};
};

}  // namespace sluice::gateway
