// What `sluice up` starts, found out before anything is: whether a model can be served, the secrets that its
// processes share, and the processes.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "clients/cli/environment.h"
#include "clients/cli/model_flags.h"
#include "clients/cli/process_plan.h"
#include "clients/cli/socket_folder.h"
#include "services/model/model_config.h"
#include "services/model/shard_plan.h"
#include "services/options/option_values.h"

namespace sluice {

// A model that can be served, and in what arrangement.
struct CheckedModel {
  std::string folder;
  ModelConfig config;
  std::vector<ShardPlan> shards;
  std::optional<ModelConfig> draft;
};

// All that can be known of it to fail before a process is started, but for whether it fits into memory.
absl::StatusOr<CheckedModel> CheckModel(const ModelFlags& flags, const Environment& environment);

// The gateway's address for clients; empty where --http_port was not given. UNAVAILABLE where it can't be
// listened on.
absl::StatusOr<std::string> HttpAddress(const OptionValues& values);

struct SharedSecrets {
  std::string api_key;          // that clients have to show; empty: another arrangement
  std::string demo_token_file;  // empty: no demonstrations
  std::string demo_token;
};

// Leaves in `folder`, which no other user can enter, the files that clients' keys and the rights of batches
// and demonstrations need, and sets the options that name them.
absl::StatusOr<SharedSecrets> MakeSecrets(const std::string& folder, OptionValues& values);

// What all processes of one `sluice up` have in common; the rest of a PipelineSpec is the model's.
PipelineSpec CommonSpec(const Environment& environment, const ModelFlags& flags,
                        const std::string& http_address, const SharedSecrets& secrets);

// How long an orchestrator that is told to end may take: its clients' calls, and itself.
absl::Duration DrainOf(const OptionValues& values);

// The page's address with the token for demonstrations; empty without one.
std::string DemoPage(const OptionValues& values, const std::string& http_address,
                     const SharedSecrets& secrets);

}  // namespace sluice
