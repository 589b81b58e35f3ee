// Products on tiles for machines without them: the unit of plain_tiles.h takes the place of the
// processor's, for which the linker then finds no need.
#include "kernels/cpu/gemm_amx-inl.h"
#include "kernels/cpu/gemm_amx_quantized-inl.h"
#include "tests/kernels/cpu/plain_tiles.h"

namespace sluice {

void MultiplyWithAmx(const SliceRun& run) { AmxGemm<PlainTiles>::Multiply(run); }
void MultiplyInt8WithAmx(const SliceRun& run) {
  AmxQuantizedGemm<PlainTiles, WeightFormat::kInt8>::Multiply(run);
}
void MultiplyInt6WithAmx(const SliceRun& run) {
  AmxQuantizedGemm<PlainTiles, WeightFormat::kInt6>::Multiply(run);
}
void MultiplyInt4WithAmx(const SliceRun& run) {
  AmxQuantizedGemm<PlainTiles, WeightFormat::kInt4>::Multiply(run);
}
void MultiplyFp8WithAmx(const SliceRun& run) {
  AmxQuantizedGemm<PlainTiles, WeightFormat::kFp8>::Multiply(run);
}

}  // namespace sluice
