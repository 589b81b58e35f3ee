// `sluice batch` of a build without the gateway (SLUICE_GATEWAY=OFF), whose code reads requests.
#include "absl/status/status.h"
#include "clients/cli/commands.h"
#include "clients/cli/outcome.h"

namespace sluice {

int BatchCommand(absl::Span<const std::string>, Environment& environment) {
  return Fail(absl::UnimplementedError(
                  "this build has no `sluice batch`: it was configured with SLUICE_GATEWAY=OFF; "
                  "`./dev build` makes one that has"),
              environment);
}

}  // namespace sluice
