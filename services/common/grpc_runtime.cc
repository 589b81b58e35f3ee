#include "services/common/grpc_runtime.h"

#include <google/protobuf/stubs/logging.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <memory>

namespace sluice {
namespace {

// gRPC's callback threads end with the last server or channel that uses them. Where one of their
// own callbacks lets go of that one, a thread waits for itself, then works on with freed memory.
// This server, which nobody reaches, keeps them for as long as the process lives.
class CallbackThreads {
 public:
  CallbackThreads() {
    grpc::ServerBuilder builder;
    builder.RegisterCallbackGenericService(&service_);
    server_ = builder.BuildAndStart();
  }

 private:
  grpc::CallbackGenericService service_;
  std::unique_ptr<grpc::Server> server_;
};

struct Runtime {
  Runtime() {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  }

  CallbackThreads callback_threads;
  // Protocol Buffers would print a line for every text that is not UTF-8: any client could fill the
  // log. The client is told.
  google::protobuf::LogSilencer silencer;
};

}  // namespace

void PrepareGrpc() {
  // Never destroyed. Nobody reads it, which would allow a compiler to drop the pointer.
  [[gnu::used]] static const Runtime* const runtime = new Runtime;
}

}  // namespace sluice
