#include "orchestrator/api/client_errors.h"

#include "services/process/log.h"

namespace sluice {

absl::Status ClientErrors::ForClient(absl::string_view call, const absl::Status& status) const {
  if (status.ok()) return status;
  absl::Status told = filter_.ForClient(status);
  if (told.message() != status.message()) {
    Log(LogLevel::kWarning, "orchestrator", "call-failed",
        {{"request", std::string(call)}, {"status", status.ToString()}});
  }
  return told;
}

}  // namespace sluice
