// Runs a fuzz target for a moment without libFuzzer, with whatever compiler there is: on every
// seed, then on mutations of them. `./dev test` tries each target so; `./dev fuzz` searches in
// earnest.
//
//   TARGET SECONDS [SEED_FOLDER]
//
// The time is that of the processor, so that a busy machine tries as much as an idle one; but a
// target that mostly waits, such as for gRPC's threads, takes at most kMostPatience times as long by
// the clock. The input at work when the target crashes, or does not return for a minute, is left in
// TARGET.crash.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using Bytes = std::vector<uint8_t>;

constexpr size_t kMaxBytes = 8192;
constexpr double kMostPatience = 10;
constexpr unsigned kHangSeconds = 60;

std::string crash_path;
Bytes at_work;

void KeepInput(int signal) {
  if (std::FILE* file = std::fopen(crash_path.c_str(), "wb")) {
    std::fwrite(at_work.data(), 1, at_work.size(), file);
    std::fclose(file);
  }
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void Run(const Bytes& input) {
  at_work = input;
  alarm(kHangSeconds);
  LLVMFuzzerTestOneInput(at_work.data(), at_work.size());
}

std::vector<Bytes> ReadSeeds(const std::string& folder) {
  std::vector<Bytes> seeds;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream file(entry.path(), std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return seeds;
}

class Mutator {
 public:
  explicit Mutator(const std::vector<Bytes>& seeds) : seeds_(seeds) {}

  Bytes Next() {
    Bytes bytes = seeds_.empty() ? Bytes() : seeds_[Below(seeds_.size())];
    for (size_t change = 1 + Below(6); change > 0; --change) Change(&bytes);
    bytes.resize(std::min(bytes.size(), kMaxBytes));
    return bytes;
  }

 private:
  size_t Below(size_t limit) { return limit == 0 ? 0 : random_() % limit; }

  // A part of `from`, at most 64 bytes.
  Bytes Part(const Bytes& from) {
    const size_t begin = Below(from.size());
    const size_t end = std::min(from.size(), begin + 1 + Below(64));
    return Bytes(from.begin() + static_cast<ptrdiff_t>(begin),
                 from.begin() + static_cast<ptrdiff_t>(end));
  }

  void Change(Bytes* bytes) {
    const auto place = bytes->begin() + static_cast<ptrdiff_t>(Below(bytes->size()));
    switch (Below(5)) {
      case 0:  // another bit
        if (!bytes->empty()) *place ^= static_cast<uint8_t>(1U << Below(8));
        break;
      case 1:  // a byte that means something in many formats
        bytes->insert(place, kTelling[Below(sizeof(kTelling) - 1)]);
        break;
      case 2:  // a part left out
        if (!bytes->empty()) {
          const auto rest = static_cast<size_t>(bytes->end() - place);
          bytes->erase(place, place + static_cast<ptrdiff_t>(std::min(rest, 1 + Below(16))));
        }
        break;
      case 3: {  // a part of this or of another seed, again
        const Bytes part =
            Part(seeds_.empty() || Below(2) == 0 ? *bytes : seeds_[Below(seeds_.size())]);
        bytes->insert(place, part.begin(), part.end());
        break;
      }
      default:  // any byte
        bytes->insert(place, static_cast<uint8_t>(Below(256)));
    }
  }

  static constexpr uint8_t kTelling[] = "\0\x01\x7F\x80\xC3\xFF\"\\{}[]()<>%-09.,:\n |'";

  const std::vector<Bytes>& seeds_;
  std::mt19937 random_{1};
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3 || std::atof(argv[1]) <= 0) {
    std::fprintf(stderr, "usage: %s SECONDS [SEED_FOLDER]\n", argv[0]);
    return 2;
  }
  crash_path = std::string(argv[0]) + ".crash";
  for (const int signal : {SIGABRT, SIGSEGV, SIGFPE, SIGBUS, SIGILL, SIGALRM})
    std::signal(signal, KeepInput);
  const std::vector<Bytes> seeds = argc == 3 ? ReadSeeds(argv[2]) : std::vector<Bytes>();
  for (const Bytes& seed : seeds) Run(seed);
  Mutator mutator(seeds);
  int64_t runs = 0;
  const double seconds = std::atof(argv[1]);
  const auto end =
      std::chrono::steady_clock::now() + std::chrono::duration<double>(kMostPatience * seconds);
  while (static_cast<double>(std::clock()) / CLOCKS_PER_SEC < seconds &&
         std::chrono::steady_clock::now() < end) {
    Run(mutator.Next());
    ++runs;
  }
  std::printf("%zu seeds and %lld mutations\n", seeds.size(), static_cast<long long>(runs));
  return 0;
}
