#include "services/security/role.h"

#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace sluice {
namespace {

constexpr RoleSet kEverybody = {Role::kOrchestrator, Role::kTokenizer, Role::kEmbedding,
                                Role::kShard,        Role::kSampler,   Role::kClient};

struct Rule {
  const char* prefix;  // of the method
  RoleSet callers;
};

// The first that fits counts.
constexpr Rule kRules[] = {
    // Ranks leave their addresses with rank 0.
    {"/sluice.v1.RendezvousService/", {Role::kShard}},
    {"/sluice.v1.StageService/", {Role::kOrchestrator}},
    {"/sluice.v1.ConstraintService/", {Role::kOrchestrator}},
    {"/sluice.v1.ChosenTokensService/", {Role::kEmbedding}},
    {"/sluice.v1.TokenizerService/", {Role::kOrchestrator}},
    {"/sluice.v1.GenerationService/", {Role::kClient}},
    {"/sluice.v1.GenerationSessionService/", {Role::kClient}},
    {"/sluice.v1.InspectService/", {Role::kClient}},
    {"/sluice.v1.KvEventService/", {Role::kClient}},
    {"/grpc.health.v1.Health/", kEverybody},
    {"/grpc.reflection.", kEverybody},
};

constexpr absl::string_view kPush = "/sluice.v1.StageService/Push";

std::optional<Role> RoleOf(absl::string_view name) {
  for (const Role role : kAllRoles) {
    if (name == Name(role)) return role;
  }
  return std::nullopt;
}

}  // namespace

const char* Name(Role role) {
  switch (role) {
    case Role::kOrchestrator:
      return "orchestrator";
    case Role::kTokenizer:
      return "tokenizer";
    case Role::kEmbedding:
      return "embedding";
    case Role::kShard:
      return "shard";
    case Role::kSampler:
      return "sampler";
    case Role::kClient:
      return "client";
  }
  return "unknown";
}

std::string RoleSet::ToString() const {
  std::string names;
  for (const Role role : kAllRoles) {
    if (Has(role)) absl::StrAppend(&names, names.empty() ? "" : " or ", Name(role));
  }
  return names.empty() ? "nobody" : names;
}

RoleSet RolesNamed(const std::vector<absl::string_view>& dns_names,
                   const std::vector<absl::string_view>& uris, absl::string_view domain) {
  RoleSet roles;
  const std::string suffix = absl::StrCat(".", domain);
  for (absl::string_view name : dns_names) {
    if (!absl::ConsumeSuffix(&name, suffix)) continue;
    if (const std::optional<Role> role = RoleOf(name)) roles.Add(*role);
  }
  const std::string prefix = absl::StrCat("spiffe://", domain, "/");
  for (absl::string_view uri : uris) {
    if (!absl::ConsumePrefix(&uri, prefix)) continue;
    if (const std::optional<Role> role = RoleOf(uri)) roles.Add(*role);
  }
  return roles;
}

RoleSet RolesNamedBelow(const std::vector<absl::string_view>& dns_names,
                        const std::vector<absl::string_view>& uris, absl::string_view domain) {
  RoleSet roles;
  const auto is_below = [&](absl::string_view name) {
    return name == domain || absl::EndsWith(name, absl::StrCat(".", domain));
  };
  for (const absl::string_view name : dns_names) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(name, absl::MaxSplits('.', 1));
    const std::optional<Role> role = RoleOf(parts.first);
    if (role.has_value() && is_below(parts.second)) roles.Add(*role);
  }
  for (absl::string_view uri : uris) {
    if (!absl::ConsumePrefix(&uri, "spiffe://")) continue;
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(uri, absl::MaxSplits('/', 1));
    const std::optional<Role> role = RoleOf(parts.second);
    if (role.has_value() && is_below(parts.first)) roles.Add(*role);
  }
  return roles;
}

RoleSet CallersOf(absl::string_view method, RoleSet pushers) {
  if (method == kPush) return pushers;
  for (const Rule& rule : kRules) {
    if (absl::StartsWith(method, rule.prefix)) return rule.callers;
  }
  return {};
}

}  // namespace sluice
