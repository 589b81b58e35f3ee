// Which model serves a request: the one that it names, itself or one of its adapters, and the first where
// it names none. Where there is but one, it serves all. Thread-safe.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "services/gateway/api/body_reader.h"
#include "services/gateway/http/exchange.h"
#include "services/gateway/models/model_host.h"
#include "services/gateway/models/served_model.h"

namespace sluice::gateway {

class ModelDirectory {
 public:
  // `models` have names, each its own, or there is one alone. Borrows the reader, and the host, which
  // wakes those that sleep: null where none does.
  ModelDirectory(std::vector<std::unique_ptr<ServedModel>> models, ModelHost* host,
                 BodyReader* reader);

  // Hands the request to the paths of its model, once that is awake, or answers it.
  void Serve(std::shared_ptr<http::Exchange> exchange);

  // Whether some model serves this caller, as GetModel says it; the host's word where all may sleep.
  void CheckCaller(const Caller& caller, std::function<void(absl::Status)> done);
  // Whether the model that serves what names none does, or would once it is awake. On `loop`.
  void CheckHealth(http::Loop* loop, std::function<void(absl::Status)> done);

  // Serves what names no model, and paths that are about none: the first that never sleeps, else the
  // first.
  ServedModel& default_model() { return *default_model_; }
  const std::vector<std::unique_ptr<ServedModel>>& models() const { return models_; }

  // Ends the calls under way.
  void Shutdown();

 private:
  struct Listing;

  bool is_alone() const { return models_.size() == 1 && host_ == nullptr; }
  ServedModel* Find(const std::string& name) const;
  void ServeNamed(const std::string& name, std::shared_ptr<http::Exchange> exchange);
  // The model that has an adapter of this name, from the one at `index` on.
  void ServeAdapter(const std::string& name, size_t index,
                    std::shared_ptr<http::Exchange> exchange);
  void ServeAwake(ServedModel& model, std::shared_ptr<http::Exchange> exchange);
  void ServeList(std::shared_ptr<http::Exchange> exchange);

  const std::vector<std::unique_ptr<ServedModel>> models_;
  ServedModel* default_model_;
  ModelHost* const host_;
  BodyReader& reader_;
};

}  // namespace sluice::gateway
