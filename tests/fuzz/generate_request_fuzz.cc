// Messages of the public API from arbitrary bytes: parsed, checked, translated.
#include <google/protobuf/stubs/logging.h>

#include <cstddef>
#include <cstdint>

#include "orchestrator/api/request_check.h"
#include "sluice/v1/generation.pb.h"

namespace {

const sluice::ModelDescription& Model() {
  static const sluice::ModelDescription model = {.vocabulary_size = 4096, .max_positions = 512};
  return model;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const google::protobuf::LogSilencer silencer;  // a line for every text that is not UTF-8
  sluice::v1::GenerateRequest generate;
  if (generate.ParseFromArray(data, static_cast<int>(size)) &&
      sluice::CheckGenerate(generate, Model()).ok()) {
    (void)sluice::EngineRequestFrom(generate, Model(), {1, 2, 3}, 7);
  }
  sluice::v1::ScoreRequest score;
  if (score.ParseFromArray(data, static_cast<int>(size))) (void)sluice::CheckScore(score, Model());
  return 0;
}
