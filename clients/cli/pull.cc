// `sluice pull`: a model from a hub into a folder that --model takes.
#include "clients/hub/pull.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "clients/cli/commands.h"
#include "clients/cli/outcome.h"
#include "clients/hub/hub_model.h"
#include "clients/hub/hub_token.h"
#include "clients/hub/model_store.h"
#include "services/model/progress.h"
#include "services/options/flags.h"

namespace sluice {
namespace {

constexpr const char* kUsualHub = "https://huggingface.co";

std::string Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

struct PullFlags {
  std::optional<std::string> name;
  std::optional<std::string> revision;
  std::optional<std::string> out;
  std::optional<std::string> endpoint;
  std::optional<std::string> token_file;
  std::vector<std::string> files;
  std::optional<int32_t> connections;
};

void AddPullFlags(FlagSet& flags, PullFlags* into) {
  flags.AddPositional(&into->name);
  flags.Add("revision", "R", "Branch, tag or commit. Default: main.", &into->revision);
  flags.AddParsed("file", "PATTERN",
                  "Get the files whose names match, such as *Q4_K_M.gguf, instead of those that "
                  "serving a folder of safetensors takes. May be given again.",
                  [into](const std::string& pattern) {
                    into->files.push_back(pattern);
                    return absl::OkStatus();
                  });
  flags.Add("out", "DIR",
            "The folder to make. Default: ORG/NAME in $SLUICE_MODELS, or in "
            "~/.local/share/sluice/models, where --model ORG/NAME looks.",
            &into->out);
  flags.Add("endpoint", "URL", "The hub. Default: $HF_ENDPOINT, or https://huggingface.co.",
            &into->endpoint);
  flags.Add("token_file", "FILE",
            "A file with the token for models that want one. Default: $HF_TOKEN, or the file "
            "$HF_TOKEN_PATH, or ~/.cache/huggingface/token.",
            &into->token_file);
  flags.AddParsed("connections", "N", "Parts of a file that are fetched at once. Default: 4.",
                  FlagSet::IntegerFrom(1, 32, &into->connections));
}

absl::StatusOr<std::string> OutFolder(const PullFlags& flags, const HubModel& model) {
  if (flags.out.has_value()) return std::string(absl::StripSuffix(*flags.out, "/"));
  const absl::StatusOr<std::string> store = ModelStore(Variable);
  if (!store.ok()) return store.status();
  return FolderInStore(*store, model);
}

absl::StatusOr<PullOptions> OptionsFrom(const PullFlags& flags) {
  const absl::StatusOr<HubModel> model = ParseHubModel(*flags.name, flags.revision.value_or(""));
  if (!model.ok()) return model.status();
  const absl::StatusOr<std::string> folder = OutFolder(flags, *model);
  if (!folder.ok()) return folder.status();
  absl::StatusOr<std::string> token = HubToken(flags.token_file.value_or(""), Variable);
  if (!token.ok()) return token.status();

  PullOptions options{.model = *model, .folder = *folder, .patterns = flags.files};
  const std::string variable = Variable("HF_ENDPOINT");
  const std::string usual = variable.empty() ? kUsualHub : variable;
  options.endpoint = std::string(absl::StripSuffix(flags.endpoint.value_or(usual), "/"));
  options.download.http.token = *std::move(token);
  options.download.num_connections = flags.connections.value_or(4);
  return options;
}

absl::StatusOr<PullResult> PullWithProgress(PullOptions options, Environment& environment) {
  std::atomic<bool> interrupted = false;
  const Interrupt::Handler handler(environment.interrupt, [&interrupted] { interrupted = true; });
  Progress progress(absl::StrCat("pulling ", options.model.name));
  options.download.http.cancelled = [&interrupted] { return interrupted.load(); };
  options.download.on_progress = [&progress](uint64_t bytes) { progress.Add(bytes); };
  options.on_wait = [&] {
    environment.err << "another pull of " << options.folder << " is at work; waiting for it\n";
  };
  options.on_expect = [&progress](uint64_t bytes) { progress.Expect(bytes); };
  return Pull(options);
}

// What --model takes to find the folder.
std::string ModelArgument(const PullFlags& flags, const PullOptions& options,
                          const PullResult& result) {
  const bool is_gguf = result.files.size() == 1 && result.files[0].ends_with(".gguf");
  if (is_gguf) return (std::filesystem::path(options.folder) / result.files[0]).string();
  if (flags.out.has_value()) return options.folder;
  const HubModel& model = options.model;
  return model.revision.empty() ? model.name : absl::StrCat(model.name, "@", model.revision);
}

std::string SummaryText(const PullFlags& flags, const PullOptions& options,
                        const PullResult& result) {
  if (result.files.empty()) {
    return absl::StrFormat("%s (%s) is in %s\nserve it with: sluice up --model %s",
                           options.model.name, result.commit.substr(0, 12), options.folder,
                           ModelArgument(flags, options, result));
  }
  return absl::StrFormat(
      "%s (%s) %s in %s: %d file%s, %.1f MB\nserve it with: sluice up --model %s",
      options.model.name, result.commit.substr(0, 12), result.was_there ? "is" : "is now",
      options.folder, result.files.size(), result.files.size() == 1 ? "" : "s",
      static_cast<double>(result.num_bytes) / 1e6, ModelArgument(flags, options, result));
}

}  // namespace

int PullCommand(absl::Span<const std::string> arguments, Environment& environment) {
  PullFlags pull_flags;
  FlagSet flags("pull", "[flags] ORG/NAME",
                "Gets a model from Hugging Face's hub, or another server with its HTTP interface, "
                "into a folder of its own. Interrupted, it goes on where it was when it is called "
                "again. Each file is checked against the digest that the hub names.");
  AddPullFlags(flags, &pull_flags);
  if (const std::optional<int> exit = ParseOrExit(flags, arguments, environment)) return *exit;
  if (!pull_flags.name.has_value()) {
    return FailUsage(flags.command(), absl::InvalidArgumentError("give ORG/NAME, the model to get"),
                     environment);
  }
  const absl::StatusOr<PullOptions> options = OptionsFrom(pull_flags);
  if (!options.ok()) return FailUsage(flags.command(), options.status(), environment);
  const absl::StatusOr<PullResult> result = PullWithProgress(*options, environment);
  if (!result.ok()) return Fail(result.status(), environment);
  if (!result->not_asked.empty()) {
    environment.err << "the hub does not answer (" << result->not_asked
                    << "); what was pulled before is used\n";
  }
  environment.out << SummaryText(pull_flags, *options, *result) << "\n";
  return Succeed(environment);
}

}  // namespace sluice
