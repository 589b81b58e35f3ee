// grpc.reflection.v1: what services a server has, and the files that describe them, for clients
// that have no protos of it. gRPC 1.51 serves the predecessor of the protocol, v1alpha, alone.
// Thread-safe once the names are set.
#pragma once

#include <string>
#include <vector>

#include "grpc/reflection/v1/reflection.grpc.pb.h"

namespace sluice {

class ReflectionService final : public grpc::reflection::v1::ServerReflection::CallbackService {
 public:
  using Request = grpc::reflection::v1::ServerReflectionRequest;
  using Response = grpc::reflection::v1::ServerReflectionResponse;

  // Full names of the server's services. Called once, before the server serves.
  void SetServices(std::vector<std::string> names) { names_ = std::move(names); }

  // Answers requests one at a time; one beyond 4 KiB ends the call with INVALID_ARGUMENT.
  grpc::ServerBidiReactor<Request, Response>* ServerReflectionInfo(
      grpc::CallbackServerContext* context) override;

  // By the descriptors that are linked into the program. NOT_FOUND in the response for what is not
  // there.
  Response Answer(const Request& request) const;

 private:
  class Call;

  std::vector<std::string> names_;
};

// Every server that the process builds from now on has the service. Called once.
void AddReflectionToServers();

}  // namespace sluice
