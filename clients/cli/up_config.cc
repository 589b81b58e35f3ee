#include "clients/cli/up_config.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "services/common/status.h"
#include "services/model/identity.h"
#include "services/options/flags.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr int kMostMemoryMib = 1 << 30;

// Beside the options of option_table.h.
constexpr char kModelsKey[] = "models";
constexpr char kMemoryKey[] = "memory_mib";
constexpr char kSleepAfterKey[] = "sleep_after";
constexpr char kAsleepKey[] = "asleep";

// What the gateway or the whole is told, and not a model of several.
bool IsOfAll(const Option& option) {
  constexpr absl::string_view kNames[] = {
      "host",   "http_port",       "http_hosts",   "demo",        "api_key", "batch_token_file",
      "tokens", "insecure_public", "metrics_port", "metrics_host"};
  return (option.programs & kGateway) != 0 ||
         std::find(std::begin(kNames), std::end(kNames), option.name) != std::end(kNames);
}

bool NamesFile(const Option& option) {
  const absl::string_view value = option.value;
  return value == "FILE" || value == "DIR";
}

class Reader {
 public:
  Reader(std::string path, const ModelFlags& given)
      : path_(std::move(path)), folder_(fs::path(path_).parent_path()), given_(given) {}

  absl::StatusOr<UpConfig> Read(const YAML::Node& root) {
    if (!root.IsMap()) return Fault(root, "the file is no mapping of options and `models`");
    for (const auto& entry : root) {
      const absl::Status read = ReadCommon(entry.first.Scalar(), entry.second);
      if (!read.ok()) return read;
    }
    // What the command line says counts more than the file.
    if (absl::Status set = SetGiven(); !set.ok()) return set;
    const YAML::Node models = root[kModelsKey];
    if (!models.IsDefined() || !models.IsSequence() || models.size() == 0) {
      return Fault(root, "`models` is not a list of at least one model");
    }
    for (const YAML::Node& model : models) {
      if (absl::Status read = ReadModel(model); !read.ok()) return read;
    }
    return std::move(config_);
  }

 private:
  absl::Status Fault(const YAML::Node& at, absl::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat(path_, ":", at.Mark().line + 1, ": ", what));
  }

  absl::Status SetGiven() {
    const std::vector<std::string> arguments = given_.values.Arguments();
    for (size_t i = 0; i < arguments.size(); ++i) {
      const std::vector<std::string> parts =
          absl::StrSplit(absl::StripPrefix(arguments[i], "--"), absl::MaxSplits('=', 1));
      const std::string text = parts.size() > 1 ? parts[1] : arguments[++i];
      if (parts[0] == "config") continue;
      if (absl::Status set = SetOption(config_.common, parts[0], text); !set.ok()) return set;
    }
    return absl::OkStatus();
  }

  // The text that a flag would be given; a list is joined by comma, a mapping as NAME=VALUE by comma.
  absl::StatusOr<std::string> TextOf(const YAML::Node& value) const {
    if (value.IsScalar()) return value.Scalar();
    if (value.IsSequence() || value.IsMap()) {
      std::vector<std::string> parts;
      for (const auto& entry : value) {
        if (value.IsSequence()) {
          if (!entry.IsScalar()) return Fault(value, "a list of texts is expected");
          parts.push_back(entry.Scalar());
        } else {
          if (!entry.second.IsScalar()) return Fault(value, "a mapping to texts is expected");
          parts.push_back(absl::StrCat(entry.first.Scalar(), "=", Located(entry.second.Scalar())));
        }
      }
      return absl::StrJoin(parts, ",");
    }
    return Fault(value, "there is no value");
  }

  // A path beside the file where there is one.
  std::string Located(const std::string& text) const {
    std::error_code ignored;
    const fs::path beside = folder_ / text;
    return !text.empty() && fs::exists(beside, ignored) ? beside.string() : text;
  }

  absl::Status Set(ModelFlags& flags, const Option& option, const YAML::Node& value) const {
    absl::StatusOr<std::string> text = TextOf(value);
    if (!text.ok()) return text.status();
    if (NamesFile(option)) *text = Located(*text);
    const absl::Status set = SetOption(flags, option.name, *text);
    return set.ok() ? set : Fault(value, set.message());
  }

  absl::Status ReadCommon(const std::string& key, const YAML::Node& value) {
    if (key == kModelsKey) return absl::OkStatus();
    if (key == kMemoryKey) {
      int mib = 0;
      const absl::StatusOr<std::string> text = TextOf(value);
      if (!text.ok()) return text.status();
      if (!absl::SimpleAtoi(*text, &mib) || mib < 1 || mib > kMostMemoryMib) {
        return Fault(value,
                     absl::StrCat("memory_mib is ", *text, "; accepted: 1 to ", kMostMemoryMib));
      }
      config_.memory_bytes = uint64_t{static_cast<uint32_t>(mib)} << 20;
      return absl::OkStatus();
    }
    const Option* option = FindOption(kUp, key);
    if (option == nullptr || key == "config") return Unknown(key, value);
    return Set(config_.common, *option, value);
  }

  absl::Status ReadModel(const YAML::Node& node) {
    if (!node.IsMap()) return Fault(node, "a model is a mapping of options");
    ConfiguredModel model;
    model.flags = config_.common;
    // Each has a place of its own unless it is told one.
    model.flags.values.Reset("port");
    for (const auto& entry : node) {
      const absl::Status read = ReadOfModel(entry.first.Scalar(), entry.second, model);
      if (!read.ok()) return read;
    }
    OptionValues& values = model.flags.values;
    model.name = values.Get<std::string>("served_model_name");
    if (model.name.empty()) {
      const std::string folder = model.flags.model();
      model.name = folder.empty() ? "storyteller" : ModelName(folder);
      values.Put("served_model_name", model.name);
    }
    if (!names_.insert(model.name).second) {
      return Fault(node, absl::StrCat("two models are named ", model.name,
                                      ": tell them apart by served_model_name"));
    }
    if (model.asleep && !model.sleeps()) {
      return Fault(node, "asleep is about a model with sleep_after");
    }
    const bool has_gateway = config_.common.values.IsGiven("http_port");
    if (model.sleeps() && !has_gateway) {
      return Fault(node, "sleep_after needs http_port: the gateway wakes a model");
    }
    if (model.sleeps() && values.IsGiven("port")) {
      return Fault(node,
                   "port and sleep_after were both given: a model that sleeps is reached over HTTP "
                   "alone");
    }
    config_.models.push_back(std::move(model));
    return absl::OkStatus();
  }

  absl::Status ReadOfModel(const std::string& key, const YAML::Node& value,
                           ConfiguredModel& model) const {
    if (key == kSleepAfterKey || key == kAsleepKey) {
      const absl::StatusOr<std::string> text = TextOf(value);
      if (!text.ok()) return text.status();
      if (key == kAsleepKey) {
        if (absl::SimpleAtob(*text, &model.asleep)) return absl::OkStatus();
        return Fault(value, absl::StrCat("asleep is ", *text, "; accepted: true, false"));
      }
      if (ParseFlagValue(*text, &model.sleep_after).ok() && model.sleep_after >= absl::Seconds(1)) {
        return absl::OkStatus();
      }
      return Fault(value, absl::StrCat("sleep_after is ", *text, "; accepted: 1s or longer"));
    }
    const Option* option = FindOption(kUp, key);
    if (option == nullptr) return Unknown(key, value);
    if (IsOfAll(*option) || key == "config") {
      return Fault(value,
                   absl::StrCat(key, " is of all models together: write it beside `models`"));
    }
    return Set(model.flags, *option, value);
  }

  absl::Status Unknown(const std::string& key, const YAML::Node& at) const {
    return Fault(at,
                 absl::StrCat("there is no option ", key,
                              ": `sluice up --help` lists them; besides: models, memory_mib, and "
                              "of a model sleep_after, asleep"));
  }

  const std::string path_;
  const fs::path folder_;
  const ModelFlags& given_;
  UpConfig config_;
  std::set<std::string> names_;
};

}  // namespace

absl::StatusOr<UpConfig> ReadUpConfig(const std::string& path, const ModelFlags& given) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file) return absl::NotFoundError(absl::StrCat("--config ", path, ": cannot be read"));
  try {
    return Reader(path, given).Read(YAML::Load(text));
  } catch (const YAML::Exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ":", error.mark.line + 1, ": ", error.msg));
  }
}

}  // namespace sluice
