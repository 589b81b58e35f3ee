// A whole pipeline in the test's own process.
#pragma once

#include <memory>

#include "clients/cli/in_process.h"
#include "tests/testing/generation_client.h"

namespace sluice::testing {

inline constexpr char kPrompt[] = "Once upon a time there was a king who";

struct StartedPipeline {
  std::unique_ptr<InProcessPipeline> pipeline;
  GenerationClient client;
};

// Of the storyteller, unless the options name another model. One that does not start ends the test.
StartedPipeline StartPipeline(InProcessOptions options = {});

// Of one pipeline for all tests that need nothing special.
const GenerationClient& SharedClient();

}  // namespace sluice::testing
