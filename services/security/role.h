// Roles of processes in a pipeline, as their certificates state them, and the RPCs that each role
// may call. Plain values and pure functions.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace sluice {

enum class Role { kOrchestrator, kTokenizer, kEmbedding, kShard, kSampler, kClient };

inline constexpr Role kAllRoles[] = {Role::kOrchestrator, Role::kTokenizer, Role::kEmbedding,
                                     Role::kShard,        Role::kSampler,   Role::kClient};

// "orchestrator", "tokenizer", ...
const char* Name(Role role);

class RoleSet {
 public:
  constexpr RoleSet(std::initializer_list<Role> roles = {}) {
    for (const Role role : roles) Add(role);
  }

  constexpr void Add(Role role) { bits_ |= Bit(role); }
  constexpr bool Has(Role role) const { return (bits_ & Bit(role)) != 0; }
  constexpr bool Meets(RoleSet other) const { return (bits_ & other.bits_) != 0; }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr bool operator==(const RoleSet&) const = default;

  // "embedding or shard"; "nobody" where empty.
  std::string ToString() const;

 private:
  static constexpr uint8_t Bit(Role role) { return uint8_t{1} << static_cast<int>(role); }

  uint8_t bits_ = 0;
};

// The roles among a certificate's names: DNS "<role>.<domain>" and URI "spiffe://<domain>/<role>".
RoleSet RolesNamed(const std::vector<absl::string_view>& dns_names,
                   const std::vector<absl::string_view>& uris, absl::string_view domain);

// The same, where the domain may also be one below `domain`, as each release of the chart has one.
RoleSet RolesNamedBelow(const std::vector<absl::string_view>& dns_names,
                        const std::vector<absl::string_view>& uris, absl::string_view domain);

// Who may call `method`, such as "/sluice.v1.StageService/Run". `pushers` is who may send
// activations to the server in question: the stage before it. Empty for a method that is unknown.
RoleSet CallersOf(absl::string_view method, RoleSet pushers);

}  // namespace sluice
