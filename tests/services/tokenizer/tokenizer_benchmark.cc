// Times encoding, decoding and streaming decoding on prose, code, CJK and worst cases, after
// checking each result, beside what it takes to load the tokenizer and to hold it.
//
//   sluice-tokenizer-bench FOLDER [PROSE]
//
// FOLDER is what Tokenizer::Load takes, PROSE a text file; without one, prose is made up. One
// thread; the best of several runs counts. tests/services/tokenizer/compare sets the same beside
// other libraries.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "services/model/json_fields.h"
#include "services/tokenizer/incremental_decoder.h"
#include "services/tokenizer/tokenizer.h"

namespace sluice {
namespace {

constexpr size_t kTextBytes = 1'000'000;
constexpr int kRuns = 5;

double Seconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double BestSeconds(const std::function<void()>& work) {
  double best = Seconds(work);
  for (int run = 1; run < kRuns; ++run) best = std::min(best, Seconds(work));
  return best;
}

// The largest resident size so far.
double PeakMiB() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
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

// `pattern` again and again, in whole characters.
std::string Repeat(const std::string& pattern, size_t num_bytes = kTextBytes) {
  std::string text;
  while (text.size() + pattern.size() <= num_bytes) text += pattern;
  return text;
}

struct Text {
  const char* name;
  std::string text;
};

std::vector<Text> Texts(const std::string& prose) {
  return {{"prose", prose},
          {"code", Repeat("for (int i = 0; i < 10; ++i) {\n    sum += values[i] * 0x1F;  // add\n"
                          "    if (sum > limit) return Status::kTooLarge;\n}\n\n")},
          {"CJK", Repeat("人工智能的发展改变了世界。東京は日本の首都です。한국어 문장도 있다. ")},
          {"one letter", Repeat("a")},
          {"spaces", Repeat(" ")},
          {"newlines", Repeat("\n")},
          {"spaces, newline", Repeat(std::string(50, ' ') + "\n")},
          {"punctuation", Repeat("!")},
          {"digits", Repeat("1")},
          {"one word", Repeat("thequickbrownfoxjumpsoverthelazydog")},
          {"emoji", Repeat("\U0001F600\U0001F44D\U0001F3FD")}};
}

void PrintRate(const char* what, size_t num_bytes, size_t num_tokens, double seconds) {
  std::printf("  %s %8.1f MB/s %7.2f Mtoken/s", what,
              static_cast<double>(num_bytes) / seconds / 1e6,
              static_cast<double>(num_tokens) / seconds / 1e6);
}

std::string Stream(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  IncrementalDecoder decoder(tokenizer);
  std::string text;
  for (const TokenId id : ids) text += ValueOrDie(decoder.Append({id}));
  return text + decoder.Finish();
}

void Measure(const Tokenizer& tokenizer, const Text& text) {
  const EncodeOptions options{.add_special = false};
  Encoding encoding;
  const double encode =
      BestSeconds([&] { encoding = ValueOrDie(tokenizer.Encode(text.text, options)); });
  std::string decoded;
  const double decode = BestSeconds([&] { decoded = ValueOrDie(tokenizer.Decode(encoding.ids)); });
  std::string streamed;
  const double stream = BestSeconds([&] { streamed = Stream(tokenizer, encoding.ids); });
  if (streamed != decoded) Die(std::string(text.name) + ": a stream differs from its whole text");
  std::printf("%-16s %8zu tokens", text.name, encoding.ids.size());
  PrintRate("encode", text.text.size(), encoding.ids.size(), encode);
  PrintRate("decode", decoded.size(), encoding.ids.size(), decode);
  PrintRate("stream", decoded.size(), encoding.ids.size(), stream);
  std::printf("\n");
}

// Of prose in growing sizes: the rate should stay.
void MeasureGrowth(const Tokenizer& tokenizer, const std::string& prose) {
  std::printf("growth:");
  for (size_t size = size_t{1} << 10; size <= size_t{64} << 20; size *= 4) {
    std::string text;
    while (text.size() < size) text += prose.substr(0, std::min(prose.size(), size - text.size()));
    while (!text.empty() && (text.back() & 0x80) != 0) text.pop_back();
    const EncodeOptions options{.add_special = false, .max_bytes = size};
    const auto encode = [&] { ValueOrDie(tokenizer.Encode(text, options)); };
    const double seconds = size > (size_t{4} << 20) ? Seconds(encode) : BestSeconds(encode);
    std::printf("  %zu KiB %.1f MB/s", size >> 10, static_cast<double>(size) / seconds / 1e6);
    std::fflush(stdout);
  }
  std::printf("\n");
}

int Main(int argc, char** argv) {
  if (argc < 2 || argc > 3 || argv[1][0] == '-') {
    Die("usage: sluice-tokenizer-bench FOLDER [PROSE]; without a file of prose a sentence is "
        "repeated, whose words "
        "are all remembered");
  }
  const std::string prose = argc == 3 ? ValueOrDie(ReadTextFile(argv[2]))
                                      : Repeat(
                                            "It was a dark and stormy night; the rain fell in "
                                            "torrents, except at occasional intervals. ");
  const double before = PeakMiB();
  std::unique_ptr<const Tokenizer> tokenizer;
  const double load = Seconds([&] { tokenizer = ValueOrDie(Tokenizer::Load(argv[1])); });
  std::printf("%s: %zu tokens, loaded in %.3f s, at most %.0f MiB\n", argv[1],
              tokenizer->vocabulary_size(), load, PeakMiB() - before);
  for (const Text& text : Texts(prose)) Measure(*tokenizer, text);
  MeasureGrowth(*tokenizer, prose);
  std::printf("%.0f MiB at most in all\n", PeakMiB());
  return 0;
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) { return sluice::Main(argc, argv); }
