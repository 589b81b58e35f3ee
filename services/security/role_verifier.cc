#include "services/security/role_verifier.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "services/security/peer.h"

namespace sluice {
namespace {

using grpc::experimental::TlsCustomVerificationCheckRequest;

class RoleVerifier final : public grpc::experimental::ExternalCertificateVerifier {
 public:
  RoleVerifier(RoleSet wanted, std::string domain) : wanted_(wanted), domain_(std::move(domain)) {}

  bool Verify(TlsCustomVerificationCheckRequest* request, std::function<void(grpc::Status)>,
              grpc::Status* sync_status) override {
    const std::vector<grpc::string_ref> dns_names = request->dns_names();
    const std::vector<grpc::string_ref> uris = request->uri_names();
    if (RolesNamed(Views(dns_names), Views(uris), domain_).Meets(wanted_)) {
      *sync_status = grpc::Status::OK;
      return true;
    }
    *sync_status = grpc::Status(
        grpc::StatusCode::UNAUTHENTICATED,
        absl::StrCat("the peer's certificate names (", absl::StrJoin(Views(dns_names), ", "),
                     dns_names.empty() || uris.empty() ? "" : ", ",
                     absl::StrJoin(Views(uris), ", "), ") do not make it ", wanted_.ToString(),
                     " of ", domain_));
    return true;
  }

  void Cancel(TlsCustomVerificationCheckRequest*) override {}

 private:
  const RoleSet wanted_;
  const std::string domain_;
};

class HostAndRoleVerifier final : public grpc::experimental::ExternalCertificateVerifier {
 public:
  HostAndRoleVerifier(Role wanted, std::string domain)
      : wanted_(wanted), domain_(std::move(domain)) {}

  bool Verify(TlsCustomVerificationCheckRequest* request, std::function<void(grpc::Status)>,
              grpc::Status* sync_status) override {
    // Answers at once, so that the callback is not used.
    host_.Verify(request, nullptr, sync_status);
    if (!sync_status->ok()) return true;
    const std::vector<grpc::string_ref> dns_names = request->dns_names();
    const std::vector<grpc::string_ref> uris = request->uri_names();
    const RoleSet roles = RolesNamedBelow(Views(dns_names), Views(uris), domain_);
    if (roles.empty() || roles.Has(wanted_)) return true;
    *sync_status = grpc::Status(grpc::StatusCode::UNAUTHENTICATED,
                                absl::StrCat("the peer's certificate makes it ", roles.ToString(),
                                             ", not ", Name(wanted_)));
    return true;
  }

  void Cancel(TlsCustomVerificationCheckRequest*) override {}

 private:
  const Role wanted_;
  const std::string domain_;
  grpc::experimental::HostNameCertificateVerifier host_;
};

}  // namespace

std::shared_ptr<grpc::experimental::CertificateVerifier> MakeRoleVerifier(RoleSet wanted,
                                                                          std::string domain) {
  return grpc::experimental::ExternalCertificateVerifier::Create<RoleVerifier>(wanted,
                                                                               std::move(domain));
}

std::shared_ptr<grpc::experimental::CertificateVerifier> MakeHostAndRoleVerifier(
    Role wanted, std::string domain) {
  return grpc::experimental::ExternalCertificateVerifier::Create<HostAndRoleVerifier>(
      wanted, std::move(domain));
}

}  // namespace sluice
