#include "services/stage/stage_tenure.h"

#include "absl/strings/str_cat.h"

namespace sluice {

absl::Status StageTenure::Check(const std::string& orchestrator, SteadyTime now) const {
  if (orchestrator == holder_) return absl::OkStatus();
  const bool awaited = stepped_ && now < ended_ + kGrace;
  if (!open_ && !awaited) return absl::OkStatus();
  return absl::AlreadyExistsError(absl::StrCat("it belongs to the orchestrator ", holder_));
}

uint64_t StageTenure::Begin(const std::string& orchestrator, const std::string& nonce) {
  if (nonce.empty() || nonce != nonce_) ++number_;
  nonce_ = nonce;
  holder_ = orchestrator;
  open_ = true;
  stepped_ = false;
  return ++stream_;
}

void StageTenure::End(uint64_t stream, SteadyTime now) {
  if (stream != stream_ || !open_) return;
  open_ = false;
  ended_ = now;
}

}  // namespace sluice
