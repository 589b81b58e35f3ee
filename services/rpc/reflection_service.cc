#include "services/rpc/reflection_service.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <grpcpp/impl/server_builder_plugin.h>
#include <grpcpp/impl/server_initializer.h>
#include <grpcpp/server_builder.h>

#include <memory>
#include <set>
#include <utility>

namespace sluice {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::FieldDescriptor;
using Response = ReflectionService::Response;

constexpr size_t kMaxRequestBytes = 4096;

void SetNotFound(const std::string& what, Response& response) {
  response.mutable_error_response()->set_error_code(grpc::StatusCode::NOT_FOUND);
  response.mutable_error_response()->set_error_message(what + " is not known to this server");
}

// The file and, before that of those who import them, all others that it needs.
void AddFile(const google::protobuf::FileDescriptor& file,
             std::set<const google::protobuf::FileDescriptor*>& added, Response& response) {
  if (!added.insert(&file).second) return;
  google::protobuf::FileDescriptorProto proto;
  file.CopyTo(&proto);
  response.mutable_file_descriptor_response()->add_file_descriptor_proto(proto.SerializeAsString());
  for (int i = 0; i < file.dependency_count(); ++i) {
    AddFile(*file.dependency(i), added, response);
  }
}

void SetFile(const google::protobuf::FileDescriptor* file, const std::string& what,
             Response& response) {
  if (file == nullptr) return SetNotFound(what, response);
  std::set<const google::protobuf::FileDescriptor*> added;
  AddFile(*file, added, response);
}

void SetExtensionNumbers(const std::string& type, Response& response) {
  const DescriptorPool& pool = *DescriptorPool::generated_pool();
  const Descriptor* message = pool.FindMessageTypeByName(type);
  if (message == nullptr) return SetNotFound(type, response);
  auto& numbers = *response.mutable_all_extension_numbers_response();
  numbers.set_base_type_name(type);
  std::vector<const FieldDescriptor*> extensions;
  pool.FindAllExtensions(message, &extensions);
  for (const FieldDescriptor* extension : extensions) {
    numbers.add_extension_number(extension->number());
  }
}

const google::protobuf::FileDescriptor* FileOfExtension(
    const grpc::reflection::v1::ExtensionRequest& asked) {
  const DescriptorPool& pool = *DescriptorPool::generated_pool();
  const Descriptor* message = pool.FindMessageTypeByName(asked.containing_type());
  if (message == nullptr) return nullptr;
  const FieldDescriptor* extension = pool.FindExtensionByNumber(message, asked.extension_number());
  return extension == nullptr ? nullptr : extension->file();
}

// Adds a service to one server.
class Plugin final : public grpc::ServerBuilderPlugin {
 public:
  std::string name() override { return "sluice.reflection.v1"; }
  void InitServer(grpc::ServerInitializer* server) override { server->RegisterService(service_); }
  void Finish(grpc::ServerInitializer* server) override {
    service_->SetServices(*server->GetServiceList());
  }
  void ChangeArguments(const std::string& /*name*/, void* /*value*/) override {}

 private:
  const std::shared_ptr<ReflectionService> service_ = std::make_shared<ReflectionService>();
};

}  // namespace

// Reads a request, answers it, and reads the next. Deletes itself when gRPC is done with it.
class ReflectionService::Call final : public grpc::ServerBidiReactor<Request, Response> {
 public:
  explicit Call(const ReflectionService& service) : service_(service) { StartRead(&request_); }

  void OnReadDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::OK);
    if (request_.ByteSizeLong() > kMaxRequestBytes) {
      return Finish({grpc::StatusCode::INVALID_ARGUMENT, "the request is larger than 4,096 bytes"});
    }
    response_ = service_.Answer(request_);
    StartWrite(&response_);
  }

  void OnWriteDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::OK);
    StartRead(&request_);
  }

  void OnDone() override { delete this; }

 private:
  const ReflectionService& service_;
  Request request_;
  Response response_;
};

grpc::ServerBidiReactor<ReflectionService::Request, ReflectionService::Response>*
ReflectionService::ServerReflectionInfo(grpc::CallbackServerContext* /*context*/) {
  return new Call(*this);
}

ReflectionService::Response ReflectionService::Answer(const Request& request) const {
  Response response;
  response.set_valid_host(request.host());
  *response.mutable_original_request() = request;
  const DescriptorPool& pool = *DescriptorPool::generated_pool();
  switch (request.message_request_case()) {
    case Request::kFileByFilename:
      SetFile(pool.FindFileByName(request.file_by_filename()), request.file_by_filename(),
              response);
      break;
    case Request::kFileContainingSymbol:
      SetFile(pool.FindFileContainingSymbol(request.file_containing_symbol()),
              request.file_containing_symbol(), response);
      break;
    case Request::kFileContainingExtension:
      SetFile(FileOfExtension(request.file_containing_extension()),
              request.file_containing_extension().containing_type(), response);
      break;
    case Request::kAllExtensionNumbersOfType:
      SetExtensionNumbers(request.all_extension_numbers_of_type(), response);
      break;
    case Request::kListServices:
      for (const std::string& name : names_) {
        response.mutable_list_services_response()->add_service()->set_name(name);
      }
      break;
    case Request::MESSAGE_REQUEST_NOT_SET:
      response.mutable_error_response()->set_error_code(grpc::StatusCode::INVALID_ARGUMENT);
      response.mutable_error_response()->set_error_message("the request asks for nothing");
      break;
  }
  return response;
}

void AddReflectionToServers() {
  grpc::ServerBuilder::InternalAddPluginFactory(
      []() -> std::unique_ptr<grpc::ServerBuilderPlugin> { return std::make_unique<Plugin>(); });
}

}  // namespace sluice
