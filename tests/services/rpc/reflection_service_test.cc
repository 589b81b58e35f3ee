// Reflection by its current name and by the one before, of a server as every process runs it.
#include "services/rpc/reflection_service.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.pb.h>
#include <grpcpp/create_channel.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "services/rpc/server.h"
#include "sluice/v1/stage.pb.h"

namespace sluice {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using Request = ReflectionService::Request;
using Response = ReflectionService::Response;

class ReflectionServiceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(v1::PushRequest::descriptor(), nullptr);  // a proto is known where it is linked
    auto server = Server::Start({.address = "127.0.0.1:0"});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    stub_ = grpc::reflection::v1::ServerReflection::NewStub(
        grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials()));
  }

  // What each request is answered, all in one call, which then ends.
  std::vector<Response> Ask(const std::vector<Request>& requests, grpc::Status* end) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    const auto stream = stub_->ServerReflectionInfo(&context);
    std::vector<Response> responses;
    for (const Request& request : requests) {
      Response response;
      if (!stream->Write(request) || !stream->Read(&response)) break;
      responses.push_back(std::move(response));
    }
    stream->WritesDone();
    *end = stream->Finish();
    return responses;
  }

  std::unique_ptr<Server> server_;
  std::unique_ptr<grpc::reflection::v1::ServerReflection::Stub> stub_;
};

std::vector<std::string> FilesIn(const Response& response) {
  std::vector<std::string> names;
  for (const std::string& bytes : response.file_descriptor_response().file_descriptor_proto()) {
    google::protobuf::FileDescriptorProto file;
    EXPECT_TRUE(file.ParseFromString(bytes));
    names.push_back(file.name());
  }
  return names;
}

TEST_F(ReflectionServiceTest, NamesServicesAndTheFilesThatDescribeThem) {
  std::vector<Request> requests(4);
  requests[0].set_list_services("");
  requests[1].set_file_containing_symbol("grpc.health.v1.Health.Check");
  requests[2].set_file_by_filename("grpc/health/v1/health.proto");
  requests[3].set_file_containing_symbol("no.such.Service");
  grpc::Status end;
  const std::vector<Response> responses = Ask(requests, &end);
  EXPECT_TRUE(end.ok()) << end.error_message();
  ASSERT_EQ(responses.size(), 4u);
  std::vector<std::string> services;
  for (const auto& service : responses[0].list_services_response().service()) {
    services.push_back(service.name());
  }
  for (const char* name : {"grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection",
                           "grpc.reflection.v1alpha.ServerReflection"}) {
    EXPECT_THAT(services, Contains(name));
  }
  EXPECT_THAT(FilesIn(responses[1]), Contains("grpc/health/v1/health.proto"));
  EXPECT_EQ(responses[1].original_request().file_containing_symbol(),
            "grpc.health.v1.Health.Check");
  EXPECT_THAT(FilesIn(responses[2]), Contains("grpc/health/v1/health.proto"));
  EXPECT_EQ(responses[3].error_response().error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(ReflectionServiceTest, SendsTheFilesThatAFileImports) {
  Request request;
  request.set_file_containing_symbol("no.such.Message");
  const Response none = ReflectionService().Answer(request);
  EXPECT_THAT(none.error_response().error_message(), HasSubstr("no.such.Message"));
  request.set_file_containing_symbol("sluice.v1.StageService");
  const Response response = ReflectionService().Answer(request);
  const std::vector<std::string> files = FilesIn(response);
  EXPECT_THAT(files, Contains("sluice/v1/tensor.proto"));
  EXPECT_EQ(std::set<std::string>(files.begin(), files.end()).size(), files.size());
}

TEST_F(ReflectionServiceTest, AnswersWhatItDoesNotKnowWithAnError) {
  EXPECT_EQ(ReflectionService().Answer({}).error_response().error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  Request request;
  request.mutable_file_containing_extension()->set_containing_type("sluice.v1.PushRequest");
  request.mutable_file_containing_extension()->set_extension_number(1);
  EXPECT_EQ(ReflectionService().Answer(request).error_response().error_code(),
            grpc::StatusCode::NOT_FOUND);
  request.set_all_extension_numbers_of_type("sluice.v1.PushRequest");
  const Response numbers = ReflectionService().Answer(request);
  EXPECT_EQ(numbers.all_extension_numbers_response().base_type_name(), "sluice.v1.PushRequest");
  EXPECT_EQ(numbers.all_extension_numbers_response().extension_number_size(), 0);
}

TEST_F(ReflectionServiceTest, EndsACallWithAnOversizedRequest) {
  Request request;
  request.set_file_containing_symbol(std::string(5000, 'a'));
  grpc::Status end;
  EXPECT_TRUE(Ask({request}, &end).empty());
  EXPECT_EQ(end.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

}  // namespace
}  // namespace sluice
