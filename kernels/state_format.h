// The geometry of the states that layers have in place of keys and values. A plain value.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice {

// A slot holds what a layer needs to compute positions [b, b + kRun) of one sequence, b being a
// multiple of kRun: the memory of every head after the positions before b, the newest inputs of the
// convolution before b, and what positions from b on have left so far: inputs of the convolution,
// factors by which memories fade, keys, and what is written for them. All are F32.
struct StatePoolSpec {
  // Positions between two boundaries. Part of the arithmetic: sums begin anew at each.
  static constexpr int64_t kRun = 64;

  int num_layers = 0;
  int num_slots = 0;
  int num_heads = 0;
  int num_key_heads = 0;  // of queries and keys; key head k is that of consecutive heads
  int key_dim = 0;
  int value_dim = 0;
  int conv_width = 0;  // >= 2

  int64_t keys_width() const { return int64_t{1} * num_key_heads * key_dim; }
  int64_t values_width() const { return int64_t{1} * num_heads * value_dim; }
  // Of the convolution: queries, keys and values.
  int64_t channels() const { return 2 * keys_width() + values_width(); }
  int heads_per_key_head() const { return num_heads / num_key_heads; }

  // Floats of the parts of a slot of one layer, and where each begins. Position b + i is row i of
  // kRun ones, and row conv_width - 1 + i of inputs.
  int64_t memory_floats() const { return int64_t{1} * num_heads * key_dim * value_dim; }
  int64_t inputs_begin() const { return memory_floats(); }  // [conv_width - 1 + kRun, channels]
  int64_t keys_begin() const {                              // [key heads, key_dim, kRun]
    return inputs_begin() + (conv_width - 1 + kRun) * channels();
  }
  int64_t written_begin() const { return keys_begin() + kRun * keys_width(); }
  // [heads, kRun, value_dim], and behind them [heads, kRun]
  int64_t factors_begin() const { return written_begin() + kRun * values_width(); }
  int64_t floats_per_slot() const { return (factors_begin() + kRun * num_heads + 15) / 16 * 16; }
  // Of one layer.
  size_t bytes_per_slot() const { return floats_per_slot() * sizeof(float); }
};

}  // namespace sluice
