#include "orchestrator/pipeline/topology.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "services/common/address.h"

namespace sluice {

absl::StatusOr<std::vector<std::vector<std::string>>> ParseShardAddresses(const std::string& text) {
  std::vector<std::vector<std::string>> shards;
  for (absl::string_view stage : absl::StrSplit(text, ';')) {
    shards.push_back(absl::StrSplit(stage, ','));
    for (const std::string& address : shards.back()) {
      if (address.empty()) {
        return absl::InvalidArgumentError(absl::StrCat("empty shard address in \"", text, "\""));
      }
      if (absl::Status valid = CheckAddress(address); !valid.ok()) return valid;
    }
    if (shards.back().size() != shards.front().size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", text, "\": stage ", shards.size() - 1, " has ", shards.back().size(),
                       " ranks, stage 0 has ", shards.front().size()));
    }
  }
  return shards;
}

}  // namespace sluice
