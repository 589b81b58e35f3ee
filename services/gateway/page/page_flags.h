// The page's options from flags, of which only a demonstration has any: two programs are made of one
// main(). sluice-gateway links services/gateway/demo/no_demo.cc and can kill nothing;
// sluice-gateway-demo, which `sluice up --demo` starts, links demo.cc.
#pragma once

#include "absl/status/statusor.h"
#include "services/gateway/page/page.h"
#include "services/options/option_values.h"

namespace sluice::gateway {

// The program that this is: kPlainGateway or kDemoGateway.
extern const Programs kLinkedGateway;

// Errors of reading the file with the token. REQUIRES: the values are of kLinkedGateway.
absl::StatusOr<PageOptions> PageOptionsOf(const OptionValues& values);

}  // namespace sluice::gateway
