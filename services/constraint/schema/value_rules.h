// Rules of a grammar for the JSON values that keep claims (shape.h), one rule for each set of
// claims. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/constraint/grammar/grammar.h"
#include "services/constraint/schema/normalizer.h"

namespace sluice {

// Where a JSON text may have whitespace: README.md.
enum class JsonSpacing { kNone, kOneSpace, kAny };

class ValueRules {
 public:
  // All are borrowed.
  ValueRules(SchemaIndex& index, SchemaNormalizer& normalizer, GrammarBuilder& builder,
             JsonSpacing spacing);

  // The rule of values under `claims`; its edges are added by Finish.
  RuleId RuleOf(Claims claims);
  // Adds the edges of all rules asked for. Errors as SchemaNormalizer::Shapes.
  absl::Status Finish();

 private:
  void Emit(RuleId rule, const Claims& claims);
  void EmitShape(JsonType type, const Shape& shape, NodeId from, NodeId to);
  void EmitNumber(const Shape& shape, NodeId from, NodeId to);
  void EmitString(const Shape& shape, NodeId from, NodeId to);
  void EmitArray(const Shape& shape, NodeId from, NodeId to);
  void EmitObject(const Shape& shape, NodeId from, NodeId to);

  // Whether no value at all keeps the claims, as far as that is plain to see.
  static bool IsNever(const Claims& claims);

  // `bytes`, with the whitespace that may stand before or behind it.
  void AddMark(NodeId from, std::string_view bytes, NodeId to, bool space_before,
               bool space_behind);
  void AddSpace(NodeId from, NodeId to);
  void AddJsonText(NodeId from, ExprId text, NodeId to);

  friend class ArrayRules;
  friend class ObjectRules;

  SchemaIndex& index_;
  SchemaNormalizer& normalizer_;
  GrammarBuilder& builder_;
  const JsonSpacing spacing_;
  ExprId any_space_ = 0;
  absl::flat_hash_map<const void*, uint32_t> node_ids_;  // that keys are in the order of asking
  absl::flat_hash_map<std::vector<uint64_t>, RuleId> rules_;
  std::deque<std::pair<RuleId, Claims>> todo_;
  absl::Status status_;
};

}  // namespace sluice
