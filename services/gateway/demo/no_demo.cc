#include "services/gateway/page/page_flags.h"

namespace sluice::gateway {

const Programs kLinkedGateway = kPlainGateway;

absl::StatusOr<PageOptions> PageOptionsOf(const OptionValues&) { return PageOptions(); }

}  // namespace sluice::gateway
