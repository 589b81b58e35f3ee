// What choosing a replica costs (services/routing): 64 replicas, a million known beginnings of prompts.
//
//   sluice-routing-bench [--replicas 64] [--keys 1000000] [--choices 20000]
//
// Prints, for prompts of 4 KB and of 220 KB, the processor time of their keys and of the choice (p50, p99),
// which does not depend on what else the machine does, and what taking the keys from replicas costs. Ends with 1 where a choice is wrong: a prompt goes to a replica
// that holds it.
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/strings/str_cat.h"
#include "services/routing/replica_chooser.h"

ABSL_FLAG(int, replicas, 64, "Replicas.");
ABSL_FLAG(int, keys, 1'000'000, "Beginnings of prompts that they hold, all together.");
ABSL_FLAG(int, choices, 20'000, "Choices of each length.");

namespace sluice {
namespace {

constexpr PrefixKey kScope = 1;
constexpr size_t kLengths[] = {4 << 10, 220 << 10};

std::string TextOf(uint32_t seed, size_t length) {
  std::mt19937_64 random(seed);
  std::string text(length, ' ');
  for (size_t i = 0; i + 8 <= length; i += 8) {
    const uint64_t word = random();
    for (int byte = 0; byte < 8; ++byte)
      text[i + byte] = static_cast<char>('a' + (word >> (8 * byte)) % 26);
  }
  return text;
}

PromptKeys KeysOf(const std::string& text) {
  PromptKeyBuilder builder("text", "");
  builder.Add(text);
  return builder.Finish();
}

double ProcessorMicroseconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

void Print(const char* what, size_t length, std::vector<double>& times) {
  std::sort(times.begin(), times.end());
  const auto at = [&times](double part) {
    return times[std::min(times.size() - 1,
                          static_cast<size_t>(part * static_cast<double>(times.size())))];
  };
  std::printf("%-8s prompt %4zu KB  p50 %7.2f us  p99 %7.2f us  max %7.1f us  (%zu times)\n", what,
              length >> 10, at(0.5), at(0.99), times.back(), times.size());
}

int Run() {
  ReplicaChooser chooser;
  std::vector<ReplicaId> replicas;
  for (int i = 0; i < absl::GetFlag(FLAGS_replicas); ++i) {
    replicas.push_back(chooser.Add(absl::StrCat("10.0.0.", i, ":8700")));
    chooser.SetLoad(replicas.back(), {});
  }
  // Prompts of both lengths in turns, each held by one replica, until there are enough keys.
  std::vector<std::pair<PromptKeys, ReplicaId>> held[2];
  std::mt19937 random(1);
  size_t num_prompts = 0;
  const double begin = ProcessorMicroseconds();
  double taking = 0;
  while (chooser.num_keys() < static_cast<size_t>(absl::GetFlag(FLAGS_keys))) {
    const size_t kind = num_prompts % 2;
    PromptKeys keys = KeysOf(TextOf(static_cast<uint32_t>(num_prompts++), kLengths[kind]));
    const ReplicaId holder = replicas[random() % replicas.size()];
    std::vector<PrefixKey> stored;
    std::vector<int32_t> positions;
    for (size_t i = 0; i < keys.keys.size(); ++i) {
      stored.push_back(KeyInScope(keys.keys[i], kScope));
      positions.push_back(static_cast<int32_t>(BytesOfKey(i) / 4));
    }
    const double before = ProcessorMicroseconds();
    chooser.Stored(holder, stored, positions);
    taking += (ProcessorMicroseconds() - before);
    held[kind].emplace_back(std::move(keys), holder);
  }
  std::printf(
      "%zu replicas, %zu known beginnings of %zu prompts; %.0f ns to take one (%.1f s in all)\n",
      replicas.size(), chooser.num_keys(), num_prompts,
      1000 * taking / static_cast<double>(chooser.num_keys()),
      (ProcessorMicroseconds() - begin) / 1e6);
  int wrong = 0;
  for (size_t kind = 0; kind < 2; ++kind) {
    std::vector<double> known, unknown, keys;
    for (int i = 0; i < absl::GetFlag(FLAGS_choices); ++i) {
      const auto& [prompt, holder] = held[kind][random() % held[kind].size()];
      for (const ReplicaId id : replicas) chooser.SetLoad(id, {});  // what was sent is done
      for (const ReplicaId id : replicas) chooser.SetLoad(id, {});
      const double before = ProcessorMicroseconds();
      const ReplicaChoice choice = chooser.Choose(prompt, kScope, i);
      known.push_back((ProcessorMicroseconds() - before));
      wrong += choice.replica != holder ? 1 : 0;
      PromptKeys other = prompt;  // the same, and nobody holds it
      for (PrefixKey& key : other.keys) key = MixKeys(key, static_cast<PrefixKey>(i) + 1000);
      const double again = ProcessorMicroseconds();
      chooser.Choose(other, kScope, i);
      unknown.push_back((ProcessorMicroseconds() - again));
    }
    const std::string text = TextOf(7, kLengths[kind]);
    for (int i = 0; i < 2000; ++i) {
      const double before = ProcessorMicroseconds();
      const PromptKeys made = KeysOf(text);
      keys.push_back((ProcessorMicroseconds() - before));
      wrong += made.keys.empty() ? 1 : 0;
    }
    Print("known", kLengths[kind], known);
    Print("unknown", kLengths[kind], unknown);
    Print("keys", kLengths[kind], keys);
  }
  if (wrong > 0) std::printf("%d choices were wrong\n", wrong);
  return wrong > 0 ? 1 : 0;
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  return sluice::Run();
}
