#include "clients/cli/up_plan.h"

#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "clients/cli/listen_port.h"
#include "clients/cli/memory_fit.h"
#include "clients/cli/up_flags.h"
#include "services/common/random.h"
#include "services/model/device_check.h"
#include "services/model/digest/vocabulary_check.h"
#include "services/model/model_check.h"
#include "services/model/weights.h"
#include "services/security/token_file.h"
#include "services/tokenizer/chat_template.h"
#include "services/tokenizer/tokenizer.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

// What ending itself takes the orchestrator once its calls have ended.
constexpr absl::Duration kEnd = absl::Seconds(1);
// Whom clients with the key of --api_key are served for.
constexpr char kKeyTenant[] = "default";
// As services/gateway/batches has it: for whom lines of batches run.
constexpr char kBatchTenant[] = "batch";

// A folder without a tokenizer serves token ids; one that can't be read serves nothing.
absl::Status CheckTokenizer(const std::string& folder, const std::string& chat_template) {
  const absl::Status usable = CheckChatTemplate(chat_template);
  if (!usable.ok()) return usable;
  const absl::Status status = Tokenizer::Load(folder, chat_template).status();
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

// Nothing where no model drafts. What its processes would end with, said before they start.
absl::StatusOr<std::optional<ModelConfig>> LoadDraftModel(const ModelFlags& flags,
                                                          const std::string& served_folder,
                                                          const ModelConfig& served) {
  const std::string folder = flags.draft_model();
  if (folder.empty()) return std::optional<ModelConfig>();
  const absl::StatusOr<ModelConfig> config = LoadModelConfig(folder);
  if (!config.ok()) return config.status();
  const absl::Status same =
      CheckSameVocabulary({.folder = served_folder, .size = served.vocab_size},
                          {.folder = folder, .size = config->vocab_size});
  if (!same.ok()) return same;
  const absl::StatusOr<WeightSource> weights = WeightSource::Open(folder, *config);
  if (!weights.ok()) return weights.status();
  const absl::Status files = CheckModelFiles(folder, *config).status();
  if (!files.ok()) return files;
  return *config;
}

absl::Status WriteFile(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text << '\n';
  file.close();
  return file ? absl::OkStatus() : absl::UnavailableError(absl::StrCat("cannot write ", path));
}

// Draws a secret that processes of this pipeline share, and leaves it for them in `path`.
absl::StatusOr<std::string> MakeToken(const std::string& path) {
  const std::string token = absl::StrCat(absl::Hex(RandomNumber(), absl::kZeroPad16),
                                         absl::Hex(RandomNumber(), absl::kZeroPad16));
  if (absl::Status written = WriteFile(path, token); !written.ok()) return written;
  return token;
}

absl::Status AddToken(const std::string& tokens, absl::string_view token,
                      absl::string_view tenant) {
  const absl::StatusOr<std::string> line = TokenLine(token, tenant);
  return line.ok() ? AppendTokenLine(tokens, *line) : line.status();
}

// The one API key as a file of tokens, which holds its hash; beside it one that lines of batches run
// with.
absl::Status UseApiKey(const std::string& folder, OptionValues& values) {
  const std::string path = absl::StrCat(folder, "/tokens");
  const absl::Status added = AddToken(path, values.Get<std::string>("api_key"), kKeyTenant);
  if (!added.ok()) return added;
  values.Put("tokens", path);
  if (!values.IsGiven("batch_dir") || values.IsGiven("batch_token_file")) return absl::OkStatus();
  const std::string token_file = absl::StrCat(folder, "/batch-token");
  const absl::StatusOr<std::string> token = MakeToken(token_file);
  if (!token.ok()) return token.status();
  values.Put("batch_token_file", token_file);
  return AddToken(path, *token, kBatchTenant);
}

// Gives the tenant of batches a low weight, so that interactive requests are served first; a file that
// --tenants names is left to say so itself.
absl::Status LetBatchesYield(const std::string& folder, OptionValues& values) {
  const bool is_needed = values.IsGiven("batch_dir") && values.Get<std::string>("tenants").empty();
  if (!is_needed) return absl::OkStatus();
  const std::string path = absl::StrCat(folder, "/tenants.json");
  values.Put("tenants", path);
  return WriteFile(path,
                   absl::StrCat(R"({"tenants": {")", kBatchTenant, R"(": {"weight": 0.1}}})"));
}

}  // namespace

absl::StatusOr<CheckedModel> CheckModel(const ModelFlags& flags, const Environment& environment) {
  absl::StatusOr<std::string> folder = ModelFolder(flags, environment.executable);
  if (!folder.ok()) return folder.status();
  absl::StatusOr<ModelConfig> config = LoadModelConfig(*folder, flags.overrides());
  if (!config.ok()) return config.status();
  absl::StatusOr<std::vector<ShardPlan>> shards = PlanShards(*config, flags);
  if (!shards.ok()) return shards.status();
  const absl::StatusOr<WeightSource> weights = WeightSource::Open(*folder, *config);
  if (!weights.ok()) return weights.status();
  absl::Status status = CheckModelFiles(*folder, *config).status();
  if (status.ok()) {
    status = CheckTokenizer(*folder, flags.values.Get<std::string>("chat_template"));
  }
  if (!status.ok()) return status;
  absl::StatusOr<std::optional<ModelConfig>> draft = LoadDraftModel(flags, *folder, *config);
  if (!draft.ok()) return draft.status();
  status = CheckDevice(flags.device());
  if (status.ok() && flags.on_gpu()) status = CheckGpuComputes(*config);
  if (!status.ok()) return status;
  return CheckedModel{*std::move(folder), *std::move(config), *std::move(shards),
                      *std::move(draft)};
}

absl::StatusOr<std::string> HttpAddress(const OptionValues& values) {
  if (!values.IsGiven("http_port")) return std::string();
  const std::string host = values.Get<std::string>("host");
  const absl::StatusOr<int> port = FindListenPort(host, values.Get<int>("http_port"));
  if (!port.ok()) return port.status();
  return AddressOf(host, *port);
}

absl::StatusOr<SharedSecrets> MakeSecrets(const std::string& folder, OptionValues& values) {
  SharedSecrets secrets;
  if (values.IsGiven("api_key")) {
    const absl::Status used = UseApiKey(folder, values);
    if (!used.ok()) return used;
    secrets.api_key = values.Get<std::string>("api_key");
  }
  const absl::Status yields = LetBatchesYield(folder, values);
  if (!yields.ok()) return yields;
  if (!values.Get<bool>("demo")) return secrets;
  secrets.demo_token_file = absl::StrCat(folder, "/demo-token");
  absl::StatusOr<std::string> token = MakeToken(secrets.demo_token_file);
  if (!token.ok()) return token.status();
  secrets.demo_token = *std::move(token);
  return secrets;
}

PipelineSpec CommonSpec(const Environment& environment, const ModelFlags& flags,
                        const std::string& http_address, const SharedSecrets& secrets) {
  return {.bin_folder = fs::path(environment.executable).parent_path().string(),
          .http_listen = http_address,
          .memory_limit = environment.memory_limit,
          .demo_token_file = secrets.demo_token_file,
          .num_gpus = flags.on_gpu() ? NumGpus() : 0,
          .flags = flags};
}

absl::Duration DrainOf(const OptionValues& values) {
  return values.Get<absl::Duration>("drain_delay") + values.Get<absl::Duration>("drain_timeout") +
         kEnd;
}

std::string DemoPage(const OptionValues& values, const std::string& http_address,
                     const SharedSecrets& secrets) {
  if (secrets.demo_token.empty()) return "";
  const bool https = !values.Get<std::string>("tls_cert").empty();
  return absl::StrCat(https ? "https://" : "http://", http_address, "/#demo=", secrets.demo_token);
}

}  // namespace sluice
