// Products on tiles for machines without them: the unit of plain_tiles.h takes the place of the
// processor's, for which the linker then finds no need.
#include "kernels/cpu/gemm_amx-inl.h"
#include "kernels/cpu/gemm_amx_quantized-inl.h"
#include "tests/kernels/cpu/plain_tiles.h"

namespace sluice {

MultiplySlice* AmxMultiply(WeightFormat format) { return MultiplyOnTiles<PlainTiles>(format); }

}  // namespace sluice
