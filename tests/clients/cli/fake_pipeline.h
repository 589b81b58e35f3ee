// A GenerationService that says what a test tells it to, on a loopback port, and what a command
// needs around it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "clients/cli/environment.h"
#include "clients/cli/in_process.h"
#include "sluice/v1/generation.pb.h"

namespace sluice::testing {

// Sends an event; false once the client has left.
using WriteEvent = std::function<bool(const v1::GenerateResponse&)>;

// What the fake answers. Called from server threads; must be ready for several at a time.
struct FakeAnswers {
  v1::GetModelResponse model;
  v1::GetStatusResponse status;
  std::function<absl::Status(const v1::GenerateRequest&, const WriteEvent&)> generate;
  std::function<absl::StatusOr<v1::ScoreResponse>(const v1::ScoreRequest&)> score;
  std::function<absl::StatusOr<v1::TokenizeResponse>(const v1::TokenizeRequest&)> tokenize;
  std::function<absl::StatusOr<v1::DetokenizeResponse>(const v1::DetokenizeRequest&)> detokenize;
  std::map<int32_t, std::string> vocabulary = {};  // served one token a page
};

// A model with a tokenizer, 100 tokens and no chat template; all calls but GetModel and GetStatus
// are UNIMPLEMENTED.
FakeAnswers DefaultAnswers();

class FakePipeline {
 public:
  // Listens at `address`, by default on a free port.
  explicit FakePipeline(FakeAnswers answers, const std::string& address = "127.0.0.1:0");
  ~FakePipeline();

  const std::string& endpoint() const;
  void SetServing(bool serving);
  void ServeHealthOn(const std::string& address);
  // The same service as `sluice run` would start it. This object must outlive it.
  std::unique_ptr<InProcessPipeline> InProcess();
  // Of all Generate calls so far, in the order of their arrival.
  std::vector<v1::GenerateRequest> requests() const;
  // GetStatus calls answered so far.
  int num_status_calls() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

v1::GenerateResponse TextEvent(int sequence, const std::string& text,
                               const std::vector<int32_t>& token_ids);
// The last event: every sequence ended with LENGTH.
v1::GenerateResponse FinishedEvent(int num_sequences, int num_tokens);

// The environment of a command, with streams that the test reads.
struct FakeEnvironment {
  std::stringstream in;
  std::stringstream out;
  std::stringstream err;
  Interrupt interrupt;
  Environment environment{.in = in, .out = out, .err = err, .interrupt = interrupt};

  // Runs `sluice` with these arguments; returns the exit status.
  int Run(const std::vector<std::string>& arguments);
};

}  // namespace sluice::testing
