#include "services/rpc/health_service.h"

#include <utility>

#include "absl/status/status.h"

namespace sluice {

HealthService::Response HealthService::StateOf(const std::string& name) const {
  Response response;
  const auto found = serving_.find(name);
  response.set_status(found == serving_.end() ? Response::SERVICE_UNKNOWN
                      : found->second         ? Response::SERVING
                                              : Response::NOT_SERVING);
  return response;
}

void HealthService::Set(const std::string& name, bool serving) {
  absl::MutexLock lock(&mutex_);
  const auto [known, added] = serving_.try_emplace(name, serving);
  if (!added && std::exchange(known->second, serving) == serving) return;
  for (auto [it, end] = watching_.equal_range(name); it != end;) {
    const std::shared_ptr<Writer> writer = it->second.lock();
    if (writer == nullptr) {
      it = watching_.erase(it);
      continue;
    }
    writer->Send(StateOf(name));
    ++it;
  }
}

void HealthService::EndWatches() {
  std::multimap<std::string, std::weak_ptr<Writer>> watching;
  {
    absl::MutexLock lock(&mutex_);
    ended_ = true;
    watching = std::exchange(watching_, {});
  }
  for (const auto& [name, weak] : watching) {
    if (const auto writer = weak.lock()) writer->Close(absl::UnavailableError("shutting down"));
  }
}

grpc::ServerUnaryReactor* HealthService::Check(grpc::CallbackServerContext* context,
                                               const Request* request, Response* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(Answer(*request, *response));
  return reactor;
}

grpc::Status HealthService::Answer(const Request& request, Response& response) const {
  absl::MutexLock lock(&mutex_);
  response = StateOf(request.service());
  return response.status() == Response::SERVICE_UNKNOWN
             ? grpc::Status(grpc::StatusCode::NOT_FOUND, "no such service")
             : grpc::Status::OK;
}

grpc::ServerWriteReactor<HealthService::Response>* HealthService::Watch(
    grpc::CallbackServerContext*, const Request* request) {
  const std::shared_ptr<Writer> writer = Writer::Start();
  absl::MutexLock lock(&mutex_);
  if (ended_) {
    writer->Close(absl::UnavailableError("shutting down"));
    return writer.get();
  }
  std::erase_if(watching_, [](const auto& entry) { return entry.second.expired(); });
  watching_.emplace(request->service(), writer);
  writer->Send(StateOf(request->service()));
  return writer.get();
}

grpc::Status ProbeService::Check(grpc::ServerContext*, const HealthService::Request* request,
                                 HealthService::Response* response) {
  return health_.Answer(*request, *response);
}

grpc::ServerWriteReactor<HealthService::Response>* ProbeService::Watch(
    grpc::CallbackServerContext* context, const HealthService::Request* request) {
  return health_.Watch(context, request);
}

}  // namespace sluice
