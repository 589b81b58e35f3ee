// What embedding, shards and sampler are told alike, from their flags.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "services/common/process.h"
#include "services/model_server/model_server.h"

namespace sluice {

// As they were given; the programs declare them, each in words of its own.
struct ModelServerFlags {
  std::string weights;
  std::string device;
  int threads = 0;
  std::string instructions = "auto";
  std::string gpu_instructions = "auto";
};

// InvalidArgument that names the flag and what it accepts.
absl::StatusOr<ModelServerOptions> ModelServerOptionsOf(const ProcessOptions& process,
                                                        const ModelServerFlags& flags);

}  // namespace sluice
