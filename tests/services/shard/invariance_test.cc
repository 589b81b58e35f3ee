// The two promises of ShardModel, on random models of every family: a token's logits have the same
// bits whatever is computed beside it, however its sequence is cut into steps, and however many
// ranks, stages and threads share the work. What they are compared with is the same sequence alone,
// as one prompt, on one rank, stage and thread.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iostream>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/kernels/testing/backend_cases.h"
#include "tests/kernels/testing/test_backend.h"
#include "tests/services/model/random_model.h"
#include "tests/services/shard/local_pipeline.h"

namespace sluice::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsSupersetOf;
using ::testing::UnorderedElementsAreArray;
using Random = std::mt19937;
using Logits = std::vector<float>;

constexpr int kLargestChunk = 512;
constexpr int kMaxStepRows = kRandomModelPositions + 64;
constexpr int kBatchesPerPath = 2;
constexpr int kWeightTypesPerModel = 4;  // of seven

int Between(int least, int most, Random& random) {
  return std::uniform_int_distribution<int>(least, most)(random);
}

// Deals the values of a factor in random order, none again before all others were dealt.
template <typename Value>
class Deck {
 public:
  Deck(std::vector<Value> values, Random& random) : values_(std::move(values)), random_(random) {}

  const Value& Deal() {
    if (next_ == 0) std::shuffle(values_.begin(), values_.end(), random_);
    const size_t index = next_;
    next_ = (next_ + 1) % values_.size();
    return values_[index];
  }

 private:
  std::vector<Value> values_;
  Random& random_;
  size_t next_ = 0;
};

// How a sequence is cut into steps.
enum class Cut {
  kOneByOne,  // but for what exceeds kOnes positions, which comes as a prompt
  kLargest,   // by kLargestChunk
  kRandom,    // by anything from 1 to that, the small as often as the large
};
constexpr int kOnes = 24;

struct Sequence {
  std::vector<int32_t> ids;
  Logits alone;
};

// A sequence on its way through shared steps.
struct Member {
  const Sequence* sequence = nullptr;
  Cut cut = Cut::kOneByOne;
  std::vector<int32_t> blocks;
  std::vector<int> chunks;  // so far
  Logits logits;            // likewise

  int computed() const { return std::accumulate(chunks.begin(), chunks.end(), 0); }
  int left() const { return static_cast<int>(sequence->ids.size()) - computed(); }
};

int NextChunk(const Member& member, Random& random) {
  const int left = member.left();
  switch (member.cut) {
    case Cut::kOneByOne:
      return left > kOnes ? std::min(left - kOnes, kLargestChunk) : 1;
    case Cut::kLargest:
      return std::min(left, kLargestChunk);
    case Cut::kRandom:
      break;
  }
  const double power = std::uniform_real_distribution<double>(0, 9)(random);
  return std::min(left, static_cast<int>(std::round(std::exp2(power))));
}

PipelineSegment SegmentOf(const Member& member, int size) {
  const auto begin = member.sequence->ids.begin() + member.computed();
  return {.ids = {begin, begin + size},
          .first_position = member.computed(),
          .block_table = member.blocks,
          .sequence_length = static_cast<int32_t>(member.sequence->ids.size())};
}

// Advances some of the members, chosen at random and in random order, by one step.
absl::Status AdvanceSome(std::vector<Member>& members, LocalPipeline& pipeline, Random& random) {
  std::shuffle(members.begin(), members.end(), random);
  std::vector<PipelineSegment> segments;
  std::vector<Member*> taking_part;
  int rows = 0;
  for (Member& member : members) {
    if (member.left() == 0 || Between(0, 3, random) == 0) continue;
    const int size = NextChunk(member, random);
    if (rows + size > kMaxStepRows) continue;
    segments.push_back(SegmentOf(member, size));
    taking_part.push_back(&member);
    rows += size;
  }
  if (segments.empty()) return absl::OkStatus();
  const auto logits = pipeline.Step(segments);
  if (!logits.ok()) return logits.status();
  auto from = logits->begin();
  for (size_t i = 0; i < segments.size(); ++i) {
    const auto size = static_cast<int>(segments[i].ids.size());
    const auto to = from + int64_t{1} * size * pipeline.config().vocab_size;
    taking_part[i]->logits.insert(taking_part[i]->logits.end(), from, to);
    taking_part[i]->chunks.push_back(size);
    from = to;
  }
  return absl::OkStatus();
}

// Blocks for all members, scattered over the pool.
void DealBlocks(const PipelineOptions& options, std::vector<Member>& members, Random& random) {
  std::vector<int32_t> blocks(options.num_blocks);
  std::iota(blocks.begin(), blocks.end(), 0);
  std::shuffle(blocks.begin(), blocks.end(), random);
  auto next = blocks.begin();
  for (Member& member : members) {
    const auto count = (static_cast<int>(member.sequence->ids.size()) + options.block_size - 1) /
                       options.block_size;
    member.blocks.assign(next, next + count);
    next += count;
  }
}

bool SameBits(const float* a, const float* b, size_t count) {
  return std::memcmp(a, b, count * sizeof(float)) == 0;
}

void ExpectSameBits(const Member& member, int vocab) {
  const Logits& alone = member.sequence->alone;
  ASSERT_EQ(member.logits.size(), alone.size());
  if (SameBits(member.logits.data(), alone.data(), alone.size())) return;
  size_t row = 0;
  while (SameBits(&member.logits[row * vocab], &alone[row * vocab], vocab)) ++row;
  ADD_FAILURE() << "other bits from position " << row << " of " << member.sequence->ids.size()
                << " on, in chunks of " << absl::StrJoin(member.chunks, " ");
}

// What fixes the bits: with the model and the sequence's tokens, nothing else may.
struct Path {
  WeightType weights = WeightType::kAuto;
  BackendCase backend;
  DType kv_dtype = DType::kF32;
  int block_size = 16;
};

std::string Text(const Path& path) {
  return absl::StrCat("weights ", Name(path.weights), ", ", path.backend.name, ", kv_dtype ",
                      KvDTypeName(path.kv_dtype), ", blocks of ", path.block_size);
}

std::string Text(const PipelineOptions& options) {
  return absl::StrCat(options.num_ranks, " ranks, ", options.num_stages, " stages, ",
                      options.num_threads, " threads");
}

// The backends with such products: for portable ones, one for each SIMD target.
std::vector<BackendCase> CasesOf(InstructionSet set) {
  std::vector<BackendCase> cases = BackendCases();
  std::erase_if(cases, [set](const BackendCase& each) { return each.instructions != set; });
  return cases;
}

// "; this machine cannot run ...", or "" where it can run all.
std::string WithoutSupport() {
  std::string text;
  for (const InstructionSet set :
       {InstructionSet::kPortable, InstructionSet::kAvx512Bf16, InstructionSet::kAmxBf16}) {
    if (!CasesOf(set).empty()) continue;
    absl::StrAppend(&text, text.empty() ? "; this machine cannot run " : ", ",
                    std::string(Name(set)));
  }
  return text;
}

class InvarianceTest : public ::testing::TestWithParam<std::string> {
 protected:
  void TearDown() override { UseSimdTargets(0); }

  static uint32_t FamilyNumber() {
    const std::vector<std::string> types = ModelTypes();
    return static_cast<uint32_t>(std::find(types.begin(), types.end(), GetParam()) - types.begin());
  }

  void ExpectInvariance(const RandomModelOptions& options);
  void ExpectInvarianceOf(const Path& path);
  void ExpectInvarianceOf(const PipelineOptions& options, const std::vector<Sequence>& sequences);
  void ExpectAllWasMet() const;
  std::vector<Path> Paths();
  PipelineOptions OptionsOf(const Path& path) const;
  std::vector<int32_t> RandomIds(int length);
  std::vector<Sequence> SequencesAlone(LocalPipeline& pipeline);

  std::unique_ptr<LocalPipeline> Load(const PipelineOptions& options) const {
    auto pipeline = LocalPipeline::Load(folder_->path(), options);
    if (!pipeline.ok()) throw std::runtime_error(std::string(pipeline.status().message()));
    return *std::move(pipeline);
  }

  Random random_{FamilyNumber()};
  std::unique_ptr<TempFolder> folder_;
  ModelConfig config_;

  Deck<int> ranks_{{1, 2, 4}, random_};
  Deck<int> stages_{{1, 2}, random_};
  Deck<int> threads_{{1, 2, 3}, random_};
  Deck<int> block_sizes_{{8, 16, 32}, random_};
  Deck<int> long_ones_{{1, 0, 0}, random_};
  Deck<WeightType> weights_{
      {WeightType::kF32, WeightType::kBF16, WeightType::kInt8, WeightType::kInt4, WeightType::kFp8,
       WeightType::kFp8W8A8, WeightType{WeightFormat::kInt8G64}},
      random_};
  Deck<DType> kv_dtypes_{{DType::kF32, DType::kBF16, DType::kF8E4M3}, random_};
  Deck<Cut> cuts_{{Cut::kOneByOne, Cut::kLargest, Cut::kRandom}, random_};
  Deck<BackendCase> portable_{CasesOf(InstructionSet::kPortable), random_};
  // Values of each factor that were met.
  std::map<std::string, std::set<std::string>> met_;
};

// Two models take all types of weights between them. Portable products run by each SIMD target in
// turn, the others as they are.
std::vector<Path> InvarianceTest::Paths() {
  std::vector<Path> paths;
  for (int i = 0; i < kWeightTypesPerModel; ++i) {
    const WeightType weights = weights_.Deal();
    for (const InstructionSet set : SupportedInstructionSets()) {
      Path path{
          .weights = weights, .kv_dtype = kv_dtypes_.Deal(), .block_size = block_sizes_.Deal()};
      path.backend = set == InstructionSet::kPortable ? portable_.Deal() : CasesOf(set).front();
      paths.push_back(path);
    }
  }
  return paths;
}

PipelineOptions InvarianceTest::OptionsOf(const Path& path) const {
  return {.weights = path.weights,
          .kv_dtype = path.kv_dtype,
          .instructions = path.backend.instructions,
          .block_size = path.block_size,
          .num_blocks = 2 * kRandomModelPositions / path.block_size,
          .max_step_rows = kMaxStepRows};
}

std::vector<int32_t> InvarianceTest::RandomIds(int length) {
  std::vector<int32_t> ids(length);
  for (int32_t& id : ids) id = Between(0, config_.vocab_size - 1, random_);
  return ids;
}

std::vector<Sequence> InvarianceTest::SequencesAlone(LocalPipeline& pipeline) {
  const bool has_long = long_ones_.Deal() == 1;
  std::vector<Sequence> sequences;
  for (const int length :
       {has_long ? Between(kLargestChunk + 1, kRandomModelPositions, random_)
                 : Between(40, 200, random_),
        Between(1, 90, random_), Between(1, 30, random_), Between(1, 30, random_)}) {
    Sequence sequence{.ids = RandomIds(length)};
    sequence.alone = pipeline.Logits(sequence.ids, {kMaxStepRows}).value();
    sequences.push_back(std::move(sequence));
  }
  return sequences;
}

void InvarianceTest::ExpectInvarianceOf(const PipelineOptions& options,
                                        const std::vector<Sequence>& sequences) {
  SCOPED_TRACE(Text(options));
  const auto pipeline = Load(options);
  std::vector<Member> members;
  for (const Sequence& sequence : sequences) {
    members.push_back({.sequence = &sequence, .cut = cuts_.Deal()});
  }
  DealBlocks(options, members, random_);
  while (std::any_of(members.begin(), members.end(), [](auto& each) { return each.left() > 0; })) {
    const absl::Status done = AdvanceSome(members, *pipeline, random_);
    ASSERT_TRUE(done.ok()) << done;
  }
  for (const Member& member : members) {
    ExpectSameBits(member, config_.vocab_size);
    for (const int chunk : member.chunks) met_["chunks"].insert(absl::StrCat(chunk));
  }
  met_["ranks"].insert(absl::StrCat(options.num_ranks));
  met_["stages"].insert(absl::StrCat(options.num_stages));
  met_["threads"].insert(absl::StrCat(options.num_threads));
}

void InvarianceTest::ExpectInvarianceOf(const Path& path) {
  SCOPED_TRACE(Text(path));
  UseSimdTargets(path.backend.simd_target);
  met_["backends"].insert(path.backend.name);
  met_["kv_dtypes"].insert(KvDTypeName(path.kv_dtype));
  met_["weights"].insert(std::string(Name(path.weights)));
  PipelineOptions options = OptionsOf(path);
  const std::vector<Sequence> sequences = SequencesAlone(*Load(options));
  for (int batch = 0; batch < kBatchesPerPath; ++batch) {
    options.num_ranks = ranks_.Deal();
    options.num_stages = stages_.Deal();
    options.num_threads = threads_.Deal();
    ExpectInvarianceOf(options, sequences);
  }
}

void InvarianceTest::ExpectInvariance(const RandomModelOptions& options) {
  SCOPED_TRACE(absl::StrCat("seed ", options.seed, "\n", RandomModelConfig(options)));
  folder_ = std::make_unique<TempFolder>();
  config_ = WriteRandomModel(options, *folder_);
  for (const Path& path : Paths()) ExpectInvarianceOf(path);
}

// The decks hold what they are to: no factor's value is left out for any family. The log names the
// instructions, as other machines have others.
void InvarianceTest::ExpectAllWasMet() const {
  const auto met = [&](const char* factor) {
    const auto& values = met_.at(factor);
    return std::vector<std::string>(values.begin(), values.end());
  };
  UseSimdTargets(0);  // or only the last path's would be listed
  std::vector<std::string> backends;
  for (const BackendCase& backend : BackendCases()) backends.push_back(backend.name);
  EXPECT_THAT(met("backends"), UnorderedElementsAreArray(backends));
  EXPECT_THAT(met("kv_dtypes"), ElementsAre("bf16", "f32", "fp8"));
  EXPECT_THAT(met("weights"), ::testing::SizeIs(7));
  EXPECT_THAT(met("ranks"), ElementsAre("1", "2", "4"));
  EXPECT_THAT(met("stages"), ElementsAre("1", "2"));
  EXPECT_THAT(met("threads"), ElementsAre("1", "2", "3"));
  EXPECT_THAT(met("chunks"), IsSupersetOf({"1", "512"}));
  std::cout << GetParam() << " was tested with " << absl::StrJoin(backends, ", ")
            << WithoutSupport() << std::endl;
}

TEST_P(InvarianceTest, NeitherNeighboursNorChunksNorRanksStagesAndThreadsChangeABit) {
  const uint32_t seed = 2 * FamilyNumber();
  ExpectInvariance({.model_type = GetParam(), .seed = seed, .all_in_groups = true});
  ExpectInvariance({.model_type = GetParam(), .seed = seed + 1, .stored = DType::kBF16});
  ExpectAllWasMet();
}

// Equal bits of numbers that say nothing would prove nothing.
TEST_P(InvarianceTest, ComparesLogitsThatTheirContextDecides) {
  folder_ = std::make_unique<TempFolder>();
  config_ =
      WriteRandomModel({.model_type = GetParam(), .seed = 1, .all_in_groups = true}, *folder_);
  const auto pipeline = Load({});
  std::vector<int32_t> ids = RandomIds(40);
  const Logits logits = pipeline->Logits(ids, {40}).value();
  double squares = 0;
  for (const float value : logits) squares += double{value} * value;
  const double size = std::sqrt(squares / static_cast<double>(logits.size()));
  EXPECT_GT(size, 0.1);  // no NaN either
  EXPECT_LT(size, 100);
  ids[38] = (ids[38] + 1) % config_.vocab_size;
  const Logits others = pipeline->Logits(ids, {40}).value();
  const size_t last = logits.size() - config_.vocab_size;
  double difference = 0;
  for (size_t i = last; i < logits.size(); ++i) {
    difference = std::max<double>(difference, std::abs(logits[i] - others[i]));
  }
  EXPECT_GT(difference, 0.01 * size);
}

// All families, or one in three on the asynchronous backend, which computes as the CPU's does.
std::vector<std::string> TestedTypes() {
  const std::vector<std::string> all = ModelTypes();
  std::vector<std::string> tested;
  for (size_t i = 0; i < all.size(); i += TestsAsync() ? 3 : 1) tested.push_back(all[i]);
  return tested;
}

INSTANTIATE_TEST_SUITE_P(Families, InvarianceTest, ::testing::ValuesIn(TestedTypes()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace sluice::testing
