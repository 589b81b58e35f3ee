#include "services/options/options_reference.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "services/options/flags.h"
#include "services/options/option_table.h"

namespace sluice {
namespace {

// Who has an option, the large groups first.
std::string NamesOf(Programs programs) {
  constexpr std::pair<Programs, const char*> kNames[] = {{kServices, "all services"},
                                                         {kReplica, "a replica's processes"},
                                                         {kTokenizer, "tokenizer"},
                                                         {kEmbedding, "embedding"},
                                                         {kShard, "shard"},
                                                         {kSampler, "sampler"},
                                                         {kOrchestrator, "orchestrator"},
                                                         {kGateway, "gateway"},
                                                         {kDemoGateway, "gateway-demo"},
                                                         {kUp, "`up`"},
                                                         {kRun, "`run`"},
                                                         {kPlan, "`plan`"},
                                                         {kSimulate, "`simulate`"}};
  std::vector<std::string> names;
  for (const auto& [group, name] : kNames) {
    if ((programs & group) != group) continue;
    names.emplace_back(name);
    programs = static_cast<Programs>(programs & ~group);
  }
  return absl::StrJoin(names, ", ");
}

std::string TypeOf(OptionKind kind) {
  switch (kind) {
    case OptionKind::kSwitch:
      return "boolean";
    case OptionKind::kInteger:
      return "integer";
    case OptionKind::kNumber:
      return "number";
    default:
      return "string";
  }
}

}  // namespace

std::string OptionsReference() {
  std::string text;
  for (const Option& option : kOptions) {
    if (*option.section != '\0') {
      absl::StrAppend(&text, text.empty() ? "" : "\n", "## ", option.section,
                      "\n\n| flag | of | what it does | chart |\n|---|---|---|---|\n");
    }
    const std::string flag =
        absl::StrCat("--", option.name, *option.value == '\0' ? "" : " ", option.value);
    const std::string chart = *option.chart == '\0' ? "" : absl::StrCat("`", option.chart, "` ");
    absl::StrAppend(&text, "| `", flag, "` | ", NamesOf(option.programs), " | ",
                    absl::StrReplaceAll(HelpOf(option), {{"|", "\\|"}, {"*", "\\*"}}), " | ", chart,
                    "|\n");
  }
  return text;
}

std::string ChartSchema(const Option& option) {
  if (*option.words != '\0') {
    const std::vector<std::string> words = absl::StrSplit(option.words, ", ");
    const char* none = *option.initial == '\0' ? "\"\", " : "";
    return absl::StrCat("{\"enum\": [", none, "\"", absl::StrJoin(words, "\", \""), "\"]}");
  }
  const std::string type = absl::StrCat("{\"type\": \"", TypeOf(option.kind), "\"");
  if (option.kind != OptionKind::kInteger) return type + "}";
  return absl::StrCat(type, ", \"minimum\": ", static_cast<int>(option.range.min), "}");
}

}  // namespace sluice
