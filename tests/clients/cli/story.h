// What the tests of `sluice generate` and `run` have a service say.
#pragma once

#include <vector>

#include "tests/clients/cli/fake_pipeline.h"

namespace sluice::testing {

// Answers every request with these events.
inline FakeAnswers Saying(std::vector<v1::GenerateResponse> events) {
  FakeAnswers answers = DefaultAnswers();
  answers.generate = [events](const v1::GenerateRequest&, const WriteEvent& write) {
    for (const v1::GenerateResponse& event : events) write(event);
    return absl::OkStatus();
  };
  return answers;
}

inline FakeAnswers Failing(const absl::Status& status,
                           std::vector<v1::GenerateResponse> events = {}) {
  FakeAnswers answers = DefaultAnswers();
  answers.generate = [status, events](const v1::GenerateRequest&, const WriteEvent& write) {
    for (const v1::GenerateResponse& event : events) write(event);
    return status;
  };
  return answers;
}

inline std::vector<v1::GenerateResponse> Story() {
  return {TextEvent(0, "there ", {5}), TextEvent(0, "", {6}), TextEvent(0, "was", {7, 8}),
          FinishedEvent(1, 4)};
}

}  // namespace sluice::testing
