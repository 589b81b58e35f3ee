// The page's options from flags, of which only a demonstration has any: two programs are made of one
// main(). sluice-gateway links services/gateway/demo/no_demo.cc and can kill nothing;
// sluice-gateway-demo, which `sluice up --demo` starts, links demo.cc.
#pragma once

#include "absl/status/statusor.h"
#include "services/gateway/page/page.h"

namespace sluice::gateway {

// From the program's own flags. Errors of reading the file with the token.
absl::StatusOr<PageOptions> PageOptionsFromFlags();

}  // namespace sluice::gateway
