// Roles in certificates, and the table of who may call what.
#include "services/security/role.h"

#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "sluice/v1/chosen_tokens.pb.h"
#include "sluice/v1/embedding.pb.h"
#include "sluice/v1/generation.pb.h"
#include "sluice/v1/inspect.pb.h"
#include "sluice/v1/sampler.pb.h"
#include "sluice/v1/shard.pb.h"
#include "sluice/v1/stage.pb.h"
#include "sluice/v1/tokenizer.pb.h"

namespace sluice {
namespace {

TEST(RolesNamed, ReadsDnsNamesAndUrisOfTheDomain) {
  EXPECT_EQ(RolesNamed({"shard.sluice.internal"}, {}, "sluice.internal"), RoleSet({Role::kShard}));
  EXPECT_EQ(RolesNamed({}, {"spiffe://a.b/sampler"}, "a.b"), RoleSet({Role::kSampler}));
  EXPECT_EQ(RolesNamed({"host.example", "embedding.d", "client.d"}, {}, "d"),
            RoleSet({Role::kEmbedding, Role::kClient}));
}

TEST(RolesNamed, ReadsNothingIntoNamesThatOnlyLookAlike) {
  for (const char* name : {"sluice.internal", "shard", "shard.sluice.internal.evil",
                           "x.shard.sluice.internal", "shardXsluice.internal", "*.sluice.internal",
                           "SHARD.sluice.internal", ".sluice.internal"}) {
    EXPECT_TRUE(RolesNamed({name}, {}, "sluice.internal").empty()) << name;
  }
  for (const char* uri : {"spiffe://evil/shard", "spiffe://sluice.internal/x/shard",
                          "https://sluice.internal/shard", "spiffe://sluice.internal/shard/"}) {
    EXPECT_TRUE(RolesNamed({}, {uri}, "sluice.internal").empty()) << uri;
  }
}

TEST(CallersOf, LetsTheOrchestratorOpenAndTheStageBeforePush) {
  const RoleSet embedding = {Role::kEmbedding};
  EXPECT_EQ(CallersOf("/sluice.v1.StageService/Run", embedding), RoleSet({Role::kOrchestrator}));
  EXPECT_EQ(CallersOf("/sluice.v1.StageService/Push", embedding), embedding);
  EXPECT_EQ(CallersOf("/sluice.v1.RendezvousService/PutRendezvous", embedding),
            RoleSet({Role::kShard}));
  EXPECT_EQ(CallersOf("/sluice.v1.ChosenTokensService/Follow", {Role::kShard}), embedding);
  EXPECT_EQ(CallersOf("/sluice.v1.GenerationService/Generate", {}), RoleSet({Role::kClient}));
  EXPECT_EQ(CallersOf("/sluice.v1.InspectService/Inspect", {}), RoleSet({Role::kClient}));
  EXPECT_EQ(CallersOf("/sluice.v1.KvEventService/KvEvents", {}), RoleSet({Role::kClient}));
  EXPECT_EQ(CallersOf("/sluice.v1.GenerationSessionService/OpenSession", {}),
            RoleSet({Role::kClient}));
}

TEST(CallersOf, LetsNobodyCallWhatItDoesNotKnow) {
  for (const char* method : {"", "/", "/sluice.v1.NewService/Run", "/sluice.v1.StageServiceX/Run",
                             "sluice.v1.StageService/Run"}) {
    EXPECT_TRUE(CallersOf(method, {Role::kShard}).empty()) << method;
  }
}

// A service that is added to the protos must be added to the table.
TEST(CallersOf, KnowsEveryMethodOfTheProtos) {
  const google::protobuf::FileDescriptor* const files[] = {
      v1::StageRunRequest::descriptor()->file(), v1::EmbeddingExecute::descriptor()->file(),
      v1::GenerateRequest::descriptor()->file(), v1::SamplerExecute::descriptor()->file(),
      v1::ShardExecute::descriptor()->file(),    v1::TokenizeRequest::descriptor()->file(),
      v1::FollowRequest::descriptor()->file(),   v1::InspectRequest::descriptor()->file(),
  };
  int methods = 0;
  for (const auto* file : files) {
    for (int s = 0; s < file->service_count(); ++s) {
      for (int m = 0; m < file->service(s)->method_count(); ++m, ++methods) {
        const std::string name = absl::StrCat("/", file->service(s)->full_name(), "/",
                                              file->service(s)->method(m)->name());
        EXPECT_FALSE(CallersOf(name, {Role::kShard}).empty()) << name;
      }
    }
  }
  EXPECT_GE(methods, 15);
}

TEST(RoleSet, SaysItsMembers) {
  EXPECT_EQ(RoleSet({Role::kShard, Role::kEmbedding}).ToString(), "embedding or shard");
  EXPECT_EQ(RoleSet().ToString(), "nobody");
}

}  // namespace
}  // namespace sluice
