#include "kernels/communicator/collective_call.h"

#include "absl/strings/str_cat.h"

namespace sluice {

std::string DescribeCollective(std::uint32_t operation, std::uint32_t root, std::uint64_t bytes) {
  switch (operation) {
    case kBroadcast:
      return absl::StrCat("Broadcast of ", bytes, " bytes from rank ", root);
    case kAllGather:
      return absl::StrCat("AllGather of ", bytes, " bytes");
    case kAllToAll:
      return absl::StrCat("AllToAll of ", bytes, " bytes");
    default:
      return absl::StrCat("unknown operation ", operation);
  }
}

}  // namespace sluice
