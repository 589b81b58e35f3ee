#include "tests/end_to_end/started_pipeline.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <utility>

#include "tests/testing/test_data.h"

namespace sluice::testing {

StartedPipeline StartPipeline(InProcessOptions options) {
  if (options.model.empty()) options.model = ProjectPath("models/storyteller");
  absl::StatusOr<std::unique_ptr<InProcessPipeline>> pipeline = StartInProcess(options);
  if (!pipeline.ok()) {
    ADD_FAILURE() << pipeline.status();
    std::abort();
  }
  auto channel = (*pipeline)->channel();
  return {*std::move(pipeline), GenerationClient(channel)};
}

const GenerationClient& SharedClient() {
  static const StartedPipeline* const started = new StartedPipeline(StartPipeline());
  return started->client;
}

}  // namespace sluice::testing
