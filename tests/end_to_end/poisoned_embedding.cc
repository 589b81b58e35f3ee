// sluice-embedding with a defect: it kills itself over the token that SLUICE_POISON_TOKEN names. Linked
// in front of the real EmbeddingTable::Embed by the linker's --wrap, under the names that it gives them.
#include <csignal>
#include <cstdlib>
#include <string>

#include "services/embedding/embedding_table.h"

namespace sluice {

absl::Status RealEmbed(EmbeddingTable* table, absl::Span<const int32_t> ids,
                       absl::Span<const int32_t> positions,
                       MatrixView out) asm("__real_" SLUICE_EMBED_SYMBOL);
absl::Status PoisonedEmbed(EmbeddingTable* table, absl::Span<const int32_t> ids,
                           absl::Span<const int32_t> positions,
                           MatrixView out) asm("__wrap_" SLUICE_EMBED_SYMBOL);

absl::Status PoisonedEmbed(EmbeddingTable* table, absl::Span<const int32_t> ids,
                           absl::Span<const int32_t> positions, MatrixView out) {
  static const char* const poison = std::getenv("SLUICE_POISON_TOKEN");
  for (const int32_t id : ids) {
    if (poison != nullptr && std::to_string(id) == poison) std::raise(SIGKILL);
  }
  return RealEmbed(table, ids, positions, out);
}

}  // namespace sluice
