#include "services/gateway/page/page_flags.h"

namespace sluice::gateway {

absl::StatusOr<PageOptions> PageOptionsFromFlags() { return PageOptions(); }

}  // namespace sluice::gateway
