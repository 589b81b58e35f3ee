// sluice-inspector: computes one Inspect call. Its request is stdin, its outcome stdout.
#include <fcntl.h>
#include <unistd.h>

#include <iostream>
#include <string>
#include <vector>

#include "services/inspector/inspector.h"
#include "services/options/flags.h"

namespace sluice {
namespace {

// Where memory runs out, this process goes before those that serve.
void OfferItself() {
  const int file = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (file < 0) return;
  (void)!write(file, "1000", 4);
  close(file);
}

absl::StatusOr<v1::InspectResponse> Answer(const InspectorOptions& options) {
  v1::InspectRequest request;
  if (!request.ParseFromFileDescriptor(STDIN_FILENO)) {
    return absl::InvalidArgumentError("stdin is no InspectRequest");
  }
  const absl::StatusOr<std::unique_ptr<Inspector>> inspector = Inspector::Open(options);
  if (!inspector.ok()) return inspector.status();
  return (*inspector)->Inspect(request, std::stop_token());
}

int Main(int argc, char** argv) {
  InspectorOptions options;
  std::string weights = "auto";
  FlagSet flags(
      "sluice-inspector", "[flags]",
      "Looks into a model for the orchestrator, which starts it for each Inspect call: reads "
      "an InspectRequest with token ids from stdin and writes an InspectOutcome to stdout.");
  flags.Add("model", "DIR", "Folder of the model, or a GGUF file.", &options.model);
  flags.Add("weights", "TYPE", "As the orchestrator's. Default auto.", &weights);
  flags.Add("rope_scaling", "TYPE,FIELD=VALUE", "As the orchestrator's.",
            &options.overrides.rope_scaling);
  flags.AddParsed("threads", "N", "Threads for arithmetic. Default 1.",
                  FlagSet::IntegerFrom(1, 1024, &options.num_threads));
  absl::Status usage = flags.Parse(std::vector<std::string>(argv + 1, argv + argc));
  if (flags.help_requested()) {
    std::cout << flags.Help(100);
    return 0;
  }
  const absl::StatusOr<WeightType> type = ParseWeightType(weights);
  usage.Update(type.status());
  if (usage.ok() && options.model.empty()) {
    usage = absl::InvalidArgumentError("--model is required: the folder of the model");
  }
  if (!usage.ok()) {
    std::cerr << "sluice-inspector: " << usage.message() << "\n";
    return 2;
  }
  options.weights = *type;
  OfferItself();
  absl::StatusOr<v1::InspectResponse> answer = Answer(options);
  v1::InspectOutcome outcome;
  outcome.set_code(static_cast<int32_t>(answer.status().code()));
  outcome.set_message(std::string(answer.status().message()));
  if (answer.ok()) *outcome.mutable_response() = *std::move(answer);
  return outcome.SerializeToFileDescriptor(STDOUT_FILENO) ? 0 : 1;
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) { return sluice::Main(argc, argv); }
