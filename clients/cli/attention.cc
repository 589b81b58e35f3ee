// `sluice attention`: what a model looks at while it reads a text.
#include <fstream>
#include <map>
#include <memory>
#include <stop_token>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "clients/cli/attention_svg.h"
#include "clients/cli/attention_text.h"
#include "clients/cli/commands.h"
#include "clients/cli/connection.h"
#include "clients/cli/json.h"
#include "clients/cli/outcome.h"
#include "clients/cli/prompt_input.h"
#include "clients/cli/text_input.h"
#include "services/common/status.h"
#include "services/inspector/inspector.h"
#include "services/process/cpu_list.h"
#include "services/tokenizer/tokenizer.h"

namespace sluice {
namespace {

// Characters of a token in the columns of a text, and beside a picture.
constexpr size_t kTextLabel = 8, kPictureLabel = 14;

struct AttentionFlags {
  // Exactly one of these two.
  std::optional<std::string> text;
  std::optional<std::vector<int32_t>> token_ids;

  std::optional<int32_t> layer, head;
  bool rollout = false;
  std::optional<int32_t> lens;
  bool json = false;
  std::string svg;
  absl::Duration timeout = absl::Minutes(10);

  // Where nothing else is asked for, or a part of it is named.
  bool wants_weights() const {
    return (!rollout && !lens.has_value()) || layer.has_value() || head.has_value();
  }
};

void AddAttentionFlags(FlagSet& flags, AttentionFlags* into) {
  flags.Section("Text (exactly one of TEXT, in which - is stdin, and this)");
  flags.AddParsed("token_ids", "1,2,3", "Token ids to look at; nothing is added to them.",
                  [into](const std::string& text) {
                    absl::StatusOr<std::vector<int32_t>> ids = ParseTokenIds(text);
                    if (!ids.ok()) return ids.status();
                    into->token_ids = *std::move(ids);
                    return absl::OkStatus();
                  });
  flags.Section("What to look at");
  flags.Add("layer", "L", "The weights of this layer, from 0. Default: of every one.",
            &into->layer);
  flags.Add(
      "head", "H",
      "The weights of this head, from 0. Default: of every one. With a layer and a head, text "
      "shows what each token reads most, otherwise what the heads tend to.",
      &into->head);
  flags.AddSwitch("rollout",
                  "How much of each token is in what the last layer makes of each (Abnar and "
                  "Zuidema 2020): weights multiplied through all layers.",
                  &into->rollout);
  flags.Add("lens", "K",
            "The K tokens, up to 20, that each layer's rows would say next were the layer the last "
            "one (logit lens). Text shows those of the last token.",
            &into->lens);
  flags.Section("Output");
  flags.AddSwitch(
      "json",
      "One object: {\"weights\":[layer][head][query][key]}, with the layers' numbers in "
      "\"layers\" and the heads' in \"heads\", \"token_ids\" and \"tokens\"; \"rollout\" "
      "[query][key] and \"lens\" [{\"layer\":..,\"positions\":[{\"top\":[{\"token_id\":..,"
      "\"logprob\":..},..],\"next_logprob\":..},..]},..] where they were asked for, without "
      "weights "
      "unless a layer or head is named.",
      &into->json);
  flags.Add("svg", "FILE",
            "Draws the weights, or with --rollout that, as heat maps into a file: with a layer and "
            "a head one with the tokens beside it.",
            &into->svg);
  flags.Section("Call");
  flags.Add("timeout", "SECONDS", "Gives up after this time. Default 10m.", &into->timeout);
}

absl::Status CheckFlags(const AttentionFlags& flags) {
  if (flags.text.has_value() == flags.token_ids.has_value()) {
    return absl::InvalidArgumentError("give exactly one of TEXT and --token_ids 1,2,3");
  }
  if (!flags.svg.empty() && !flags.wants_weights() && !flags.rollout) {
    return absl::InvalidArgumentError("--svg draws weights and --rollout, not --lens");
  }
  if (!flags.text.has_value()) return absl::OkStatus();
  return Annotate(CheckUtf8(*flags.text), "TEXT is");
}

v1::InspectRequest RequestOf(const AttentionFlags& flags) {
  v1::InspectRequest request;
  if (flags.text.has_value()) request.set_text(*flags.text);
  if (flags.token_ids.has_value()) {
    request.mutable_token_ids()->mutable_token_ids()->Assign(flags.token_ids->begin(),
                                                             flags.token_ids->end());
  }
  request.set_weights(flags.wants_weights());
  if (flags.layer.has_value()) request.add_layers(*flags.layer);
  if (flags.head.has_value()) request.add_heads(*flags.head);
  request.set_rollout(flags.rollout);
  request.set_lens(flags.lens.value_or(0));
  return request;
}

// Where the answer comes from, and what its tokens are in text.
struct Seen {
  v1::InspectResponse answer;
  std::map<int32_t, std::string> texts;  // empty without a tokenizer
};

absl::StatusOr<Seen> LookHere(const ModelFlags& model, v1::InspectRequest request,
                              Environment& environment) {
  const absl::StatusOr<std::string> folder = ModelFolder(model, environment.executable);
  if (!folder.ok()) return folder.status();
  if (const absl::Status kept = KeepToCpus(model.cpus); !kept.ok()) return kept;
  absl::StatusOr<std::unique_ptr<Inspector>> inspector =
      Inspector::Open({.model = *folder,
                       .overrides = model.overrides(),
                       .weights = model.weight_type(),
                       .num_threads = model.num_threads(),
                       .cpus = model.cpus});
  if (!inspector.ok()) return inspector.status();
  const absl::StatusOr<std::unique_ptr<const Tokenizer>> tokenizer = Tokenizer::Load(*folder);
  if (request.has_text()) {
    if (!tokenizer.ok()) return tokenizer.status();
    const absl::StatusOr<Encoding> encoding = (*tokenizer)->Encode(request.text());
    if (!encoding.ok()) return encoding.status();
    request.mutable_token_ids()->mutable_token_ids()->Assign(encoding->ids.begin(),
                                                             encoding->ids.end());
  }
  std::stop_source stop;
  const Interrupt::Handler handler(environment.interrupt, [&stop] { stop.request_stop(); });
  absl::StatusOr<v1::InspectResponse> answer = (*inspector)->Inspect(request, stop.get_token());
  if (!answer.ok()) return answer.status();
  Seen seen = {.answer = *std::move(answer)};
  if (!tokenizer.ok()) return seen;
  const auto add = [&](int32_t id) {
    if ((*tokenizer)->HasToken(id)) seen.texts[id] = (*tokenizer)->TokenBytes(id);
  };
  for (const int32_t id : seen.answer.token_ids()) add(id);
  for (const v1::LensLayer& layer : seen.answer.lens()) {
    for (const v1::LensPosition& position : layer.positions()) {
      for (const v1::TokenLogprob& token : position.top()) add(token.token_id());
    }
  }
  return seen;
}

absl::StatusOr<Seen> LookThere(const EndpointFlags& endpoint, const v1::InspectRequest& request,
                               absl::Duration timeout, Environment& environment) {
  const absl::StatusOr<std::unique_ptr<Client>> client = ConnectToEndpoint(endpoint, environment);
  if (!client.ok()) return client.status();
  absl::StatusOr<v1::InspectResponse> answer = (*client)->Inspect(request, timeout);
  if (!answer.ok()) return answer.status();
  Seen seen = {.answer = *std::move(answer)};
  const absl::StatusOr<std::vector<std::string>> texts = (*client)->GetTokenTexts();
  if (!texts.ok()) return seen;  // no tokenizer
  for (size_t id = 0; id < texts->size(); ++id) {
    seen.texts[static_cast<int32_t>(id)] = (*texts)[id];
  }
  return seen;
}

TokenLabel LabelOf(const Seen& seen, size_t most) {
  return [&seen, most](int32_t id) {
    const auto text = seen.texts.find(id);
    return text == seen.texts.end() ? absl::StrCat(id) : ShownToken(text->second, most);
  };
}

// [query][key], zero in the future.
Json TriangleJson(const Triangle& weights, int num_tokens) {
  Json rows = Json::array();
  for (int i = 0; i < num_tokens; ++i) {
    Json row = Json::array();
    for (int j = 0; j < num_tokens; ++j) row.push_back(JsonOf(weights.At(i, j)));
    rows.push_back(std::move(row));
  }
  return rows;
}

Json LensJson(const v1::LensLayer& layer) {
  Json result;
  result["layer"] = layer.layer();
  result["positions"] = Json::array();
  for (const v1::LensPosition& position : layer.positions()) {
    Json each;
    each["top"] = JsonOf(position.top());
    each["next_logprob"] =
        position.has_next_logprob() ? JsonOf(position.next_logprob()) : Json(nullptr);
    result["positions"].push_back(std::move(each));
  }
  return result;
}

std::string JsonText(const Seen& seen, const AttentionFlags& flags) {
  const v1::InspectResponse& answer = seen.answer;
  const int n = answer.token_ids_size();
  Json result;
  result["token_ids"] = Json::array();
  for (const int32_t id : answer.token_ids()) result["token_ids"].push_back(id);
  if (!seen.texts.empty()) {
    result["tokens"] = Json::array();
    for (const int32_t id : answer.token_ids()) {
      const auto text = seen.texts.find(id);
      result["tokens"].push_back(text == seen.texts.end() ? "" : text->second);
    }
  }
  if (flags.wants_weights()) {
    result["layers"] = result["heads"] = result["weights"] = Json::array();
    for (const v1::AttentionMap& map : answer.maps()) {
      if (result["layers"].empty() || result["layers"].back() != map.layer()) {
        result["layers"].push_back(map.layer());
        result["weights"].push_back(Json::array());
      }
      if (result["layers"].size() == 1) result["heads"].push_back(map.head());
      result["weights"].back().push_back(TriangleJson(Triangle(map.weights()), n));
    }
  }
  if (flags.rollout) result["rollout"] = TriangleJson(Triangle(answer.rollout()), n);
  if (flags.lens.has_value()) {
    result["lens"] = Json::array();
    for (const v1::LensLayer& layer : answer.lens()) result["lens"].push_back(LensJson(layer));
  }
  return DumpLine(result) + "\n";
}

std::string Text(const Seen& seen, const AttentionFlags& flags) {
  const v1::InspectResponse& answer = seen.answer;
  const TokenLabel label = LabelOf(seen, kTextLabel);
  std::string text;
  if (answer.maps_size() == 1) {
    const v1::AttentionMap& map = answer.maps(0);
    absl::StrAppend(&text, "layer ", map.layer(), ", head ", map.head(), "\n",
                    ReadsText(answer, Triangle(map.weights()), label));
  } else if (flags.wants_weights()) {
    absl::StrAppend(&text, MapsText(answer));
  }
  if (flags.rollout) {
    absl::StrAppend(&text, text.empty() ? "" : "\n", "rollout over all layers\n",
                    ReadsText(answer, Triangle(answer.rollout()), label));
  }
  if (flags.lens.has_value()) {
    absl::StrAppend(&text, text.empty() ? "" : "\n", LensText(answer, label));
  }
  return text;
}

absl::Status Draw(const Seen& seen, const AttentionFlags& flags) {
  const v1::InspectResponse& answer = seen.answer;
  std::vector<HeatMap> maps;
  if (flags.rollout) maps.push_back({"rollout over all layers", Triangle(answer.rollout())});
  for (const v1::AttentionMap& map : answer.maps()) {
    if (flags.rollout) break;
    const bool alone = answer.maps_size() == 1;
    maps.push_back({alone ? absl::StrFormat("layer %d, head %d", map.layer(), map.head())
                          : absl::StrFormat("%d, %d", map.layer(), map.head()),
                    Triangle(map.weights())});
  }
  const TokenLabel label = LabelOf(seen, kPictureLabel);
  std::vector<std::string> tokens;
  for (const int32_t id : answer.token_ids()) tokens.push_back(label(id));
  const int per_row = flags.head.has_value() || flags.layer.has_value()
                          ? std::min<int>(static_cast<int>(maps.size()), 8)
                          : answer.num_heads();
  const absl::StatusOr<std::string> svg = HeatMapsSvg(maps, per_row, tokens);
  if (!svg.ok()) return svg.status();
  std::ofstream file(flags.svg, std::ios::binary);
  file << *svg;
  file.close();
  if (file.good()) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat("cannot write ", flags.svg));
}

}  // namespace

int AttentionCommand(absl::Span<const std::string> arguments, Environment& environment) {
  AttentionFlags attention;
  EndpointFlags endpoint;
  ModelFlags model;
  FlagSet flags("attention", "[flags] [TEXT]",
                "Shows what a model looks at while it reads a text: attention weights by layer and "
                "head, their rollout, and what each layer would say.");
  AddAttentionFlags(flags, &attention);
  AddModelFlags(flags, &model);
  AddEndpointFlags(flags, "Default: computed in this process, layer by layer.", &endpoint);
  flags.AddPositional(&attention.text);
  if (const std::optional<int> exit = ParseOrExit(flags, arguments, environment)) return *exit;
  if (attention.text == "-") {
    absl::StatusOr<std::string> read = ReadInput("-", environment);
    if (!read.ok()) return Fail(read.status(), environment);
    attention.text = *std::move(read);
  }
  absl::Status usage = CheckFlags(attention);
  usage.Update(CheckOneTarget(endpoint, model));
  if (!usage.ok()) return FailUsage(flags.command(), usage, environment);
  const v1::InspectRequest request = RequestOf(attention);
  const absl::StatusOr<Seen> seen =
      CallsEndpoint(endpoint, model, environment)
          ? LookThere(endpoint, request, attention.timeout, environment)
          : LookHere(model, request, environment);
  if (!seen.ok()) return Fail(seen.status(), environment);
  if (!attention.svg.empty()) {
    if (const absl::Status drawn = Draw(*seen, attention); !drawn.ok()) {
      return Fail(drawn, environment);
    }
  }
  if (attention.json) {
    environment.out << JsonText(*seen, attention);
  } else if (attention.svg.empty()) {
    environment.out << Text(*seen, attention);
  }
  return Succeed(environment);
}

}  // namespace sluice
