// Holds every call on a mutual-TLS listener against the table of role.h.
#pragma once

#include <grpcpp/security/auth_metadata_processor.h>

#include <string>
#include <utility>

#include "services/security/role.h"

namespace sluice {

// Thread-safe. PERMISSION_DENIED says who the caller is and who would have been let in.
class MethodAccess final : public grpc::AuthMetadataProcessor {
 public:
  // `pushers`: as in CallersOf.
  MethodAccess(RoleSet pushers, std::string domain)
      : pushers_(pushers), domain_(std::move(domain)) {}

  bool IsBlocking() const override { return false; }
  grpc::Status Process(const InputMetadata& metadata, grpc::AuthContext* context,
                       OutputMetadata* consumed, OutputMetadata* response) override;

 private:
  const RoleSet pushers_;
  const std::string domain_;
};

}  // namespace sluice
