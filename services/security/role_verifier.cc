#include "services/security/role_verifier.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace sluice {
namespace {

using grpc::experimental::TlsCustomVerificationCheckRequest;

std::vector<absl::string_view> Views(const std::vector<grpc::string_ref>& names) {
  std::vector<absl::string_view> views;
  views.reserve(names.size());
  for (const grpc::string_ref& name : names) views.emplace_back(name.data(), name.size());
  return views;
}

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

}  // namespace

std::shared_ptr<grpc::experimental::CertificateVerifier> MakeRoleVerifier(RoleSet wanted,
                                                                          std::string domain) {
  return grpc::experimental::ExternalCertificateVerifier::Create<RoleVerifier>(wanted,
                                                                               std::move(domain));
}

}  // namespace sluice
