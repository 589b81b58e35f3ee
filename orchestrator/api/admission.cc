#include "orchestrator/api/admission.h"

#include <optional>

#include "absl/strings/string_view.h"
#include "orchestrator/api/caller.h"
#include "services/common/utf8_text.h"

namespace sluice {
namespace {

absl::StatusOr<std::string> NameOf(const absl::StatusOr<Caller>& caller) {
  if (!caller.ok()) return caller.status();
  return EscapedUnlessUtf8(caller->tenant);  // of a certificate it may be anything
}

}  // namespace

absl::StatusOr<Caller> Admission::Told(absl::StatusOr<Caller> caller,
                                       const grpc::ServerContextBase& context) const {
  if (guard_ == nullptr) return caller;
  if (caller.ok()) {
    guard_->OnAdmitted(context.peer());
  } else {
    guard_->OnRefused(context.peer(), caller.status().message());
  }
  return caller;
}

absl::Status Admission::Check(const grpc::ServerContextBase& context) const {
  if (!asks_for_proof()) {
    if (guard_ != nullptr) guard_->OnCalled(context.peer());
    return absl::OkStatus();
  }
  return Told(authenticator_->Admit(context), context).status();
}

absl::StatusOr<std::string> Admission::TenantOf(const grpc::ServerContextBase& context) const {
  if (!asks_for_proof()) {
    if (guard_ != nullptr) guard_->OnCalled(context.peer());
    return sluice::TenantOf(context);
  }
  return NameOf(Told(authenticator_->Admit(context), context));
}

absl::StatusOr<std::string> Admission::TenantOf(const grpc::ServerContextBase& session,
                                                const v1::StartCall& start) const {
  if (!asks_for_proof()) return sluice::TenantOf(start.sluice_tenant(), session);
  std::optional<absl::string_view> authorization;
  if (!start.authorization().empty()) authorization = start.authorization();
  return NameOf(Told(authenticator_->Admit(authorization, session), session));
}

void Admission::OnMessage(const std::string& peer, size_t bytes) const {
  if (guard_ == nullptr) return;
  if (!asks_for_proof()) guard_->OnAdmitted(peer);
  guard_->OnMessage(peer, bytes);
}

}  // namespace sluice
