// Compiles JSON schemas and holds their instances against them, token by token.
//
//   sluice-constraint-bench TOKENIZER_DIR FILE.jsonl [--json] [--verbose]
//
// TOKENIZER_DIR is what Tokenizer::Load takes. FILE has a schema in each line:
// {"name": ..., "schema": ..., "tests": [{"valid": bool, "data": ...}]}. A schema is right when it
// compiles and every instance, written as Python's json.dumps(data, ensure_ascii=False) does, is
// judged right: produced to its end where it is valid, refused at some token or at its end where it
// is not. Of those that are not right, wrong_accept counts those that produce an invalid instance,
// wrong_refuse the others that compile. One thread. A mask's time is that of making it and of
// accepting the token behind it; a schema's that of reading its text, compiling and its first
// state.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "services/constraint/engine/matcher.h"
#include "services/constraint/engine/token_vocabulary.h"
#include "services/constraint/json/json_value.h"
#include "services/constraint/schema/schema_compiler.h"
#include "services/tokenizer/tokenizer.h"

namespace sluice {
namespace {

using Clock = std::chrono::steady_clock;

double Microseconds(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

[[noreturn]] void Die(const std::string& message) {
  std::fprintf(stderr, "%s\n", message.c_str());
  std::exit(1);
}

template <typename T>
T ValueOrDie(absl::StatusOr<T> result) {
  if (!result.ok()) Die(std::string(result.status().message()));
  return *std::move(result);
}

// As json.dumps writes it: a space behind commas and colons.
std::string Dumped(const JsonValue& value) {
  std::string out;
  if (value.is_array()) {
    for (const JsonValue& item : value.items) out += (out.empty() ? "" : ", ") + Dumped(item);
    return "[" + out + "]";
  }
  if (value.is_object()) {
    for (const auto& [name, inner] : value.members)
      out += (out.empty() ? "" : ", ") + JsonQuoted(name) + ": " + Dumped(inner);
    return "{" + out + "}";
  }
  return JsonText(value);
}

std::shared_ptr<const TokenVocabulary> VocabularyOf(const Tokenizer& tokenizer) {
  TokenVocabularyOptions options;
  options.bytes.resize(static_cast<size_t>(tokenizer.id_limit()));
  for (TokenId id = 0; id < tokenizer.id_limit(); ++id)
    if (tokenizer.HasToken(id) && !tokenizer.IsSpecial(id))
      options.bytes[static_cast<size_t>(id)] = tokenizer.TokenBytes(id);
  return ValueOrDie(TokenVocabulary::Create(std::move(options)));
}

struct Times {
  std::vector<double> us;

  double Mean() const {
    double sum = 0;
    for (const double t : us) sum += t;
    return us.empty() ? 0 : sum / static_cast<double>(us.size());
  }
  // The smallest that at least a share `p` does not exceed. REQUIRES: sorted.
  double At(double p) const {
    if (us.empty()) return 0;
    const auto rank = static_cast<size_t>(std::ceil(p * static_cast<double>(us.size())));
    return us[std::min(us.size() - 1, rank == 0 ? 0 : rank - 1)];
  }
};

class Benchmark {
 public:
  Benchmark(const Tokenizer& tokenizer, bool verbose)
      : tokenizer_(tokenizer), vocabulary_(VocabularyOf(tokenizer)), verbose_(verbose) {}

  void RunLine(const JsonValue& line) {
    const JsonValue* schema = line.Find("schema");
    const JsonValue* tests = line.Find("tests");
    if (schema == nullptr) Die("a line without a schema");
    const JsonValue* name = line.Find("name");
    name_ = name == nullptr ? std::to_string(num_schemas_) : name->text;
    ++num_schemas_;
    // Instances say which values are valid, not how they are spelled: 1.0 is an integer.
    JsonValue any_spelling = *schema;
    if (any_spelling.is_object() && any_spelling.Find("x-integers") == nullptr)
      any_spelling.members.push_back(
          {"x-integers", {.type = JsonValue::Type::kString, .text = "any"}});
    const std::string text = JsonText(any_spelling);
    const auto start = Clock::now();
    auto grammar = CompileJsonSchema(text);
    if (!grammar.ok()) {
      compile_.us.push_back(Microseconds(start));
      ++compile_errors_;
      Say("compile error: " + std::string(grammar.status().message()));
      return;
    }
    const auto constraint = Constraint::Create(*std::move(grammar), vocabulary_);
    compile_.us.push_back(Microseconds(start));
    if (compile_.us.back() > 20'000)
      Say("compiles in " + std::to_string(compile_.us.back() / 1000) + " ms");
    bool accepts_wrong = false, refuses_wrong = false;
    if (tests != nullptr) {
      for (const JsonValue& test : tests->items) {
        const JsonValue* valid = test.Find("valid");
        const JsonValue* data = test.Find("data");
        if (valid == nullptr || data == nullptr) Die(name_ + ": a test without valid and data");
        const bool expected = valid->type == JsonValue::Type::kTrue;
        if (Accepts(constraint, Dumped(*data), expected) == expected) continue;
        (expected ? refuses_wrong : accepts_wrong) = true;
      }
    }
    if (accepts_wrong) {
      ++wrong_accept_;
    } else if (refuses_wrong) {
      ++wrong_refuse_;
    } else {
      ++right_;
    }
    memory_ = std::max(memory_, constraint->memory());
  }

  void Report(bool json) {
    std::sort(mask_.us.begin(), mask_.us.end());
    std::sort(compile_.us.begin(), compile_.us.end());
    if (json) {
      std::printf(
          "{\"schemas\":%zu,\"right\":%zu,\"compile_error\":%zu,\"wrong_accept\":%zu,"
          "\"wrong_refuse\":%zu,\"mask_us\":{\"mean\":%.2f,\"p50\":%.2f,\"p99\":%.2f,\"max\":%.2f},"
          "\"compile_us\":{\"p50\":%.1f,\"p95\":%.1f,\"max\":%.1f}}\n",
          num_schemas_, right_, compile_errors_, wrong_accept_, wrong_refuse_, mask_.Mean(),
          mask_.At(0.5), mask_.At(0.99), mask_.At(1), compile_.At(0.5), compile_.At(0.95),
          compile_.At(1));
      return;
    }
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    std::printf(
        "schemas %zu: right %zu (%.1f%%), compile error %zu, wrong accept %zu, wrong refuse %zu\n",
        num_schemas_, right_,
        100.0 * static_cast<double>(right_) /
            static_cast<double>(std::max<size_t>(num_schemas_, 1)),
        compile_errors_, wrong_accept_, wrong_refuse_);
    std::printf("microseconds      mean        p50        p95        p99        max\n");
    std::printf("mask        %10.2f %10.2f %10.2f %10.2f %10.2f   of %zu\n", mask_.Mean(),
                mask_.At(0.5), mask_.At(0.95), mask_.At(0.99), mask_.At(1), mask_.us.size());
    std::printf("compile     %10.1f %10.1f %10.1f %10.1f %10.1f\n", compile_.Mean(),
                compile_.At(0.5), compile_.At(0.95), compile_.At(0.99), compile_.At(1));
    std::printf(
        "memory: vocabulary %.1f MiB, largest constraint %.1f MiB, process at most %.1f MiB\n",
        static_cast<double>(vocabulary_->memory()) / (1 << 20),
        static_cast<double>(memory_) / (1 << 20), static_cast<double>(usage.ru_maxrss) / 1024);
  }

 private:
  void Say(const std::string& what) const {
    if (verbose_) std::fprintf(stderr, "%s: %s\n", name_.c_str(), what.c_str());
  }

  bool Accepts(const std::shared_ptr<Constraint>& constraint, const std::string& text,
               bool expected) {
    const Encoding encoding =
        ValueOrDie(tokenizer_.Encode(text, {.add_special = false, .parse_special = false}));
    Matcher matcher(constraint);
    TokenMask mask(vocabulary_->mask_words());
    std::string done;
    for (const TokenId id : encoding.ids) {
      const auto start = Clock::now();
      const absl::Status filled = matcher.FillMask(absl::MakeSpan(mask));
      const bool allowed =
          filled.ok() && (mask[static_cast<size_t>(id) / 64] >> (id % 64) & 1) != 0;
      const absl::Status accepted = matcher.Accept(id);
      mask_.us.push_back(Microseconds(start));
      if (!filled.ok()) Say(std::string(filled.message()));
      if (filled.ok() && allowed != accepted.ok())
        Die(name_ + ": the mask and the automaton differ on token " + std::to_string(id));
      if (mask_.us.back() > 1'000)
        Say("a mask in " + std::to_string(mask_.us.back()) + " us behind " + Tail(done));
      if (!allowed) {
        if (expected) Say("refuses " + Tail(done) + " >>" + vocabulary_->bytes(id) + "<<");
        return false;
      }
      done += vocabulary_->bytes(id);
    }
    const bool ends = ValueOrDie(matcher.MayEnd());
    if (ends != expected) Say((ends ? "accepts " : "may not end ") + text.substr(0, 300));
    return ends;
  }

  static std::string Tail(const std::string& text) {
    return text.size() <= 200 ? text : "..." + text.substr(text.size() - 200);
  }

  const Tokenizer& tokenizer_;
  const std::shared_ptr<const TokenVocabulary> vocabulary_;
  const bool verbose_;
  std::string name_;
  Times mask_, compile_;
  size_t num_schemas_ = 0, right_ = 0, compile_errors_ = 0, wrong_accept_ = 0, wrong_refuse_ = 0;
  size_t memory_ = 0;
};

int Main(int argc, char** argv) {
  std::vector<std::string> places;
  bool json = false, verbose = false;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--json") {
      json = true;
    } else if (argument == "--verbose") {
      verbose = true;
    } else {
      places.push_back(argument);
    }
  }
  if (places.size() != 2 || places[0].rfind("--", 0) == 0)
    Die("usage: sluice-constraint-bench TOKENIZER_DIR FILE.jsonl [--json] [--verbose]");
  const auto tokenizer = ValueOrDie(Tokenizer::Load(places[0]));
  std::ifstream file(places[1]);
  if (!file) Die("can't read " + places[1]);
  Benchmark benchmark(*tokenizer, verbose);
  std::string line;
  while (std::getline(file, line)) {
    if (line.empty()) continue;
    benchmark.RunLine(ValueOrDie(ParseJsonValue(line, {.max_bytes = size_t{1} << 30})));
  }
  benchmark.Report(json);
  return 0;
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) { return sluice::Main(argc, argv); }
