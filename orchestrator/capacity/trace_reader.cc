#include "orchestrator/capacity/trace_reader.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "services/model/json_fields.h"

namespace sluice {
namespace {

constexpr size_t kLongestLine = size_t{1} << 26;
constexpr char kAzureHeader[] = "TIMESTAMP,ContextTokens,GeneratedTokens";
constexpr char kLogEvent[] = "request-ended";
constexpr double kLatest = 1e12;  // seconds, or milliseconds

// Turns lines into requests. Not thread-safe.
class TraceBuilder {
 public:
  TraceBuilder(std::string source, const TraceOptions& options)
      : source_(std::move(source)), options_(options) {}

  // `text` is not empty.
  absl::Status AddLine(int64_t number, absl::string_view text) {
    line_ = absl::StrCat(source_, ":", number);
    if (form_ == Form::kUnknown) {
      absl::Status status = Recognize(text);
      if (!status.ok() || form_ == Form::kAzure) return status;
    }
    switch (form_) {
      case Form::kMooncake:
        return AddMooncake(text);
      case Form::kAzure:
        return AddAzure(text);
      default:
        return AddLog(text);
    }
  }

  bool full() const { return std::ssize(trace_.requests) >= options_.max_requests; }

  absl::StatusOr<Trace> Finish() {
    if (trace_.requests.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          source_,
          ": there is no request in it; accepted: Mooncake's JSON lines, Azure's CSV, or "
          "an orchestrator's log with lines \"",
          kLogEvent, "\""));
    }
    std::vector<TracedRequest>& requests = trace_.requests;
    std::stable_sort(
        requests.begin(), requests.end(),
        [](const TracedRequest& a, const TracedRequest& b) { return a.arrival < b.arrival; });
    const double begin = requests.front().arrival;
    for (TracedRequest& request : requests) {
      request.arrival = (request.arrival - begin) / options_.speed;
    }
    return std::move(trace_);
  }

 private:
  enum class Form { kUnknown, kMooncake, kAzure, kLog };

  absl::Status Recognize(absl::string_view text) {
    if (text == kAzureHeader) {
      form_ = Form::kAzure;
    } else if (text.front() == '{') {
      const absl::StatusOr<nlohmann::json> json = ParseJson(std::string(text), line_);
      if (!json.ok()) return json.status();
      form_ = json->contains("event") ? Form::kLog : Form::kMooncake;
    } else if (absl::StartsWith(text, "TIMESTAMP")) {
      return Bad("header", text, kAzureHeader);
    } else {
      form_ = Form::kLog;
    }
    return absl::OkStatus();
  }

  absl::Status Bad(absl::string_view field, absl::string_view value,
                   absl::string_view accepted) const {
    constexpr size_t kMostShown = 60;
    const bool cut = value.size() > kMostShown;
    return absl::InvalidArgumentError(absl::StrCat(line_, ": ", field, " is \"",
                                                   absl::CHexEscape(value.substr(0, kMostShown)),
                                                   cut ? "..." : "", "\"; accepted: ", accepted));
  }

  // ---- Mooncake ----

  absl::Status AddMooncake(absl::string_view text) {
    const absl::StatusOr<nlohmann::json> json = ParseJson(std::string(text), line_);
    if (!json.ok()) return json.status();
    if (!json->is_object()) {
      return absl::InvalidArgumentError(
          absl::StrCat(line_, ": ", ValueText(*json), " is no object"));
    }
    JsonFields fields(line_, *json);
    const std::optional<double> milliseconds = fields.NumberAtLeast("timestamp", 0, kLatest);
    if (!milliseconds.has_value() && fields.status().ok()) {
      fields.Reject("timestamp", "milliseconds");
    }
    TracedRequest request{.arrival = milliseconds.value_or(0) / 1000};
    request.prompt_tokens = fields.Int("input_length", 1, kMostTracedTokens);
    request.new_tokens = std::max(fields.Int("output_length", 0, kMostTracedTokens), 1);
    if (fields.status().ok()) AddHashes(fields, request);
    if (!fields.status().ok()) return fields.status();
    trace_.requests.push_back(request);
    return absl::OkStatus();
  }

  void AddHashes(JsonFields& fields, TracedRequest& request) {
    const nlohmann::json* hashes = fields.Get("hash_ids");
    if (hashes == nullptr) return;
    if (!hashes->is_array()) return fields.Reject("hash_ids", "a list of integers from 0");
    const int64_t per_hash = options_.tokens_per_hash;
    const int64_t wanted = (request.prompt_tokens + per_hash - 1) / per_hash;
    if (static_cast<int64_t>(hashes->size()) != wanted) {
      return fields.Fail(absl::StrCat(
          "hash_ids has ", hashes->size(), " entries; accepted: ", wanted, ", one for each ",
          per_hash, " of the ", request.prompt_tokens, " tokens of input_length"));
    }
    request.first_run = static_cast<uint32_t>(trace_.runs.size());
    request.num_runs = static_cast<uint32_t>(hashes->size());
    int64_t left = request.prompt_tokens;
    for (const nlohmann::json& hash : *hashes) {
      if (!hash.is_number_unsigned()) {
        return fields.Reject("hash_ids", "a list of integers from 0");
      }
      trace_.runs.push_back({.id = RunOf(hash.get<uint64_t>()),
                             .length = static_cast<int32_t>(std::min(left, per_hash))});
      left -= per_hash;
    }
  }

  uint32_t RunOf(uint64_t hash) {
    return run_ids_.try_emplace(hash, static_cast<uint32_t>(run_ids_.size())).first->second;
  }

  // ---- Azure ----

  absl::Status AddAzure(absl::string_view text) {
    const std::vector<absl::string_view> cells = absl::StrSplit(text, ',');
    if (cells.size() != 3) return Bad("the line", text, kAzureHeader);
    absl::Time time;
    if (!ParseDate(cells[0], &time)) {
      return Bad("TIMESTAMP", cells[0], "YYYY-MM-DD HH:MM:SS with a fraction and a zone or none");
    }
    TracedRequest request{.arrival = absl::ToDoubleSeconds(time - absl::UnixEpoch())};
    if (!ParseCount(cells[1], 1, &request.prompt_tokens)) {
      return Bad("ContextTokens", cells[1], CountText(1));
    }
    if (!ParseCount(cells[2], 0, &request.new_tokens)) {
      return Bad("GeneratedTokens", cells[2], CountText(0));
    }
    request.new_tokens = std::max(request.new_tokens, 1);
    trace_.requests.push_back(request);
    return absl::OkStatus();
  }

  static bool ParseDate(absl::string_view text, absl::Time* time) {
    std::string error;
    return (absl::ParseTime("%Y-%m-%d %H:%M:%E*S", text, time, &error) ||
            absl::ParseTime("%Y-%m-%d %H:%M:%E*S%Ez", text, time, &error)) &&
           *time > absl::UnixEpoch() && *time < absl::InfiniteFuture();
  }

  static std::string CountText(int32_t least) {
    return absl::StrCat("an integer from ", least, " to ", kMostTracedTokens);
  }

  static bool ParseCount(absl::string_view text, int32_t least, int32_t* count) {
    return absl::SimpleAtoi(text, count) && *count >= least && *count <= kMostTracedTokens;
  }

  // ---- The orchestrator's log ----

  using Fields = absl::flat_hash_map<std::string, std::string>;

  absl::Status AddLog(absl::string_view text) {
    if (!absl::StrContains(text, kLogEvent)) return absl::OkStatus();
    Fields fields;
    if (text.front() == '{') {
      const absl::StatusOr<nlohmann::json> json = ParseJson(std::string(text), line_);
      if (!json.ok()) return json.status();
      if (json->value("event", nlohmann::json()) != kLogEvent) return absl::OkStatus();
      for (const auto& [name, value] : json->items()) {
        fields[name] = value.is_string() ? value.get<std::string>() : value.dump();
      }
    } else {
      const std::vector<absl::string_view> words = absl::StrSplit(text, absl::MaxSplits(' ', 4));
      if (words.size() < 5 || words[3] != kLogEvent) return absl::OkStatus();
      fields["time"] = std::string(words[0]);
      if (absl::Status status = SplitFields(words[4], fields); !status.ok()) return status;
    }
    return AddEnded(fields);
  }

  // key=value key="quoted value" ...
  absl::Status SplitFields(absl::string_view text, Fields& fields) const {
    while (!text.empty()) {
      const size_t equals = text.find('=');
      if (equals == absl::string_view::npos) return Bad("the line's rest", text, "KEY=VALUE ...");
      const std::string name(absl::StripAsciiWhitespace(text.substr(0, equals)));
      text.remove_prefix(equals + 1);
      std::string value;
      if (absl::ConsumePrefix(&text, "\"")) {
        size_t end = 0;
        while (end < text.size() && text[end] != '"') end += text[end] == '\\' ? 2 : 1;
        if (end >= text.size()) return Bad(name, text, "a value that ends with a quotation mark");
        if (!absl::CUnescape(text.substr(0, end), &value)) {
          return Bad(name, text.substr(0, end), "a value that is escaped as in C");
        }
        text.remove_prefix(end + 1);
      } else {
        const size_t end = std::min(text.find(' '), text.size());
        value = std::string(text.substr(0, end));
        text.remove_prefix(end);
      }
      text = absl::StripLeadingAsciiWhitespace(text);
      fields[name] = std::move(value);
    }
    return absl::OkStatus();
  }

  absl::Status AddEnded(const Fields& fields) {
    const auto count = [&](const char* name, int32_t* into) {
      const auto found = fields.find(name);
      const std::string text = found == fields.end() ? "" : found->second;
      return ParseCount(text, 0, into) ? absl::OkStatus() : Bad(name, text, CountText(0));
    };
    int32_t prompt = 0, cached = 0, generated = 0;
    absl::Status status = count("prompt_tokens", &prompt);
    status.Update(count("cached_tokens", &cached));
    status.Update(count("generated_tokens", &generated));
    if (!status.ok()) return status;
    const auto time_text = fields.find("time");
    absl::Time ended;
    std::string error;
    if (time_text == fields.end() ||
        !absl::ParseTime(absl::RFC3339_full, time_text->second, &ended, &error) ||
        ended <= absl::UnixEpoch() || ended == absl::InfiniteFuture()) {
      return Bad("time", time_text == fields.end() ? "" : time_text->second,
                 "such as 2026-01-31T12:00:00.000Z");
    }
    const auto total = fields.find("total_ms");
    int64_t total_ms = 0;
    if (total == fields.end() || total->second == "-" || prompt == 0 || generated == 0) {
      ++trace_.num_skipped;
      return absl::OkStatus();
    }
    if (!absl::SimpleAtoi(total->second, &total_ms) || total_ms < 0 || total_ms > kLatest) {
      return Bad("total_ms", total->second, "an integer from 0");
    }
    TracedRequest request{.arrival = absl::ToDoubleSeconds(ended - absl::UnixEpoch()) -
                                     static_cast<double>(total_ms) / 1000,
                          .prompt_tokens = prompt,
                          .new_tokens = generated};
    const auto tenant = fields.find("tenant");
    if (tenant != fields.end()) request.tenant = TenantOf(tenant->second);
    if (cached > 0) {
      request.first_run = static_cast<uint32_t>(trace_.runs.size());
      request.num_runs = 1;
      trace_.runs.push_back({.id = request.tenant, .length = std::min(cached, prompt)});
    }
    trace_.requests.push_back(request);
    return absl::OkStatus();
  }

  uint32_t TenantOf(const std::string& name) {
    const auto [it, added] =
        tenants_.try_emplace(name, static_cast<uint32_t>(trace_.tenants.size()));
    if (added) trace_.tenants.push_back(name);
    return it->second;
  }

  const std::string source_;
  const TraceOptions options_;
  Form form_ = Form::kUnknown;
  std::string line_;  // "SOURCE:LINE" of the one being read
  Trace trace_;
  absl::flat_hash_map<uint64_t, uint32_t> run_ids_;  // by hash id
  absl::flat_hash_map<std::string, uint32_t> tenants_ = {{"", 0}};
};

}  // namespace

absl::StatusOr<Trace> ReadTrace(std::istream& in, const std::string& source,
                                const TraceOptions& options) {
  TraceBuilder builder(source, options);
  std::string line;
  for (int64_t number = 1; !builder.full() && std::getline(in, line); ++number) {
    if (line.size() > kLongestLine) {
      return absl::InvalidArgumentError(absl::StrCat(source, ":", number, ": the line has ",
                                                     line.size(), " bytes; accepted: at most ",
                                                     kLongestLine));
    }
    const absl::string_view text = absl::StripAsciiWhitespace(line);
    if (text.empty()) continue;
    if (absl::Status status = builder.AddLine(number, text); !status.ok()) return status;
  }
  return builder.Finish();
}

absl::StatusOr<Trace> ReadTraceFile(const std::string& path, const TraceOptions& options) {
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  // A folder opens, and gives nothing.
  if (!in || in.peek() == std::ifstream::traits_type::eof()) {
    const std::string reason = errno != 0 ? std::strerror(errno) : "the file is empty";
    return absl::InvalidArgumentError(absl::StrCat(path, ": cannot be read: ", reason));
  }
  return ReadTrace(in, path, options);
}

}  // namespace sluice
