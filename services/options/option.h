// What one option of a program is. Plain values.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

namespace sluice {

// A set of programs, as bits.
using Programs = uint16_t;

inline constexpr Programs kTokenizer = 1 << 0;
inline constexpr Programs kEmbedding = 1 << 1;
inline constexpr Programs kShard = 1 << 2;
inline constexpr Programs kSampler = 1 << 3;
inline constexpr Programs kOrchestrator = 1 << 4;
inline constexpr Programs kPlainGateway = 1 << 5;
inline constexpr Programs kDemoGateway = 1 << 6;
inline constexpr Programs kUp = 1 << 7;         // `sluice up`
inline constexpr Programs kRun = 1 << 8;        // `sluice run` and others that can start a pipeline
inline constexpr Programs kPlan = 1 << 9;       // `sluice plan`
inline constexpr Programs kSimulate = 1 << 10;  // `sluice simulate`

// Those that compute, those of a replica, and further groups.
inline constexpr Programs kCompute = kEmbedding | kShard | kSampler;
inline constexpr Programs kReplica = kTokenizer | kCompute | kOrchestrator;
inline constexpr Programs kGateway = kPlainGateway | kDemoGateway;
inline constexpr Programs kServices = kReplica | kGateway;
inline constexpr Programs kPipeline = kUp | kRun;
inline constexpr Programs kAllPrograms = kServices | kPipeline | kPlan | kSimulate;

enum class OptionKind : uint8_t {
  kText,
  kTexts,    // by comma
  kSwitch,   // initially false
  kInteger,  // int
  kNumber,   // double
  kDuration  // absl::Duration; a number without a unit is of seconds
};

inline constexpr int kMostInteger = std::numeric_limits<int>::max();
inline constexpr double kUnbounded = std::numeric_limits<double>::infinity();

// Accepted numbers; of durations in seconds.
struct OptionRange {
  double min = 0;
  double max = kUnbounded;
  bool above_min = false;  // min itself is refused
};

struct Option {
  const char* name;  // of the flag
  OptionKind kind;
  Programs programs;            // that have it
  const char* value;            // what the help calls the value; empty: of a switch
  const char* help;             // in sentences
  const char* initial = "";     // the default as text; empty: none, or `help` says it
  const char* words = "";       // the texts that are accepted, by ", "; empty: any
  OptionRange range = {};       // of numbers
  const char* chart = "";       // where the chart's values have it; empty: nowhere
  const char* section = "";     // heading of this one and those after it
  bool set_by_planner = false;  // `up` gives its processes values of their own

  // The option with one field set.
  consteval Option Default(const char* text) const { return With(&Option::initial, text); }
  consteval Option OneOf(const char* list) const { return With(&Option::words, list); }
  consteval Option From(double min, double max = kMostInteger) const {
    return With(&Option::range, {.min = min, .max = max});
  }
  consteval Option Above(double min, double max = kUnbounded) const {
    return With(&Option::range, {.min = min, .max = max, .above_min = true});
  }
  // What the program checks itself.
  consteval Option AnyInteger() const { return From(-kMostInteger); }
  consteval Option InChart(const char* path) const { return With(&Option::chart, path); }
  consteval Option BeginsSection(const char* title) const { return With(&Option::section, title); }
  consteval Option SetByPlanner() const { return With(&Option::set_by_planner, true); }

 private:
  template <typename T>
  consteval Option With(T Option::*field, std::type_identity_t<T> value) const {
    Option changed = *this;
    changed.*field = value;
    return changed;
  }
};

consteval Option TextOption(const char* name, Programs programs, const char* value,
                            const char* help) {
  return {name, OptionKind::kText, programs, value, help};
}
consteval Option TextsOption(const char* name, Programs programs, const char* value,
                             const char* help) {
  return {name, OptionKind::kTexts, programs, value, help};
}
consteval Option SwitchOption(const char* name, Programs programs, const char* help) {
  return {name, OptionKind::kSwitch, programs, "", help};
}
consteval Option IntegerOption(const char* name, Programs programs, const char* value,
                               const char* help) {
  return {name, OptionKind::kInteger, programs, value, help};
}
consteval Option NumberOption(const char* name, Programs programs, const char* value,
                              const char* help) {
  return {name, OptionKind::kNumber, programs, value, help};
}
consteval Option DurationOption(const char* name, Programs programs, const char* help) {
  return {name, OptionKind::kDuration, programs, "SECONDS", help};
}

}  // namespace sluice
