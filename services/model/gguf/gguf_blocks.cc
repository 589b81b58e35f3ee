#include "services/model/gguf/gguf_blocks.h"

#include <cmath>
#include <cstring>

#include "kernels/dtype.h"

namespace sluice {
namespace {

constexpr int kShort = 32;     // weights of a short block
constexpr int kLong = 256;     // of a K block
constexpr int kScaleRun = 16;  // weights of a K block that share a scale in Q2_K, Q3_K and Q6_K

uint16_t WordAt(const std::byte* at) {
  uint16_t word;
  std::memcpy(&word, at, sizeof(word));
  return word;
}

float HalfAt(const std::byte* at) { return FloatFromHalf(WordAt(at)); }

int Low(std::byte byte) { return std::to_integer<int>(byte) & 15; }
int High(std::byte byte) { return std::to_integer<int>(byte) >> 4; }
int Bit(std::byte byte, int index) { return std::to_integer<int>(byte) >> index & 1; }
int TwoBits(std::byte byte, int index) { return std::to_integer<int>(byte) >> (2 * index) & 3; }
int Signed(std::byte byte) { return static_cast<int8_t>(byte); }

// Blocks of 32: calls write(block, out) for each.
template <typename WriteBlock>
void ForEachBlock(const std::byte* blocks, int64_t count, int bytes, int weights, float* out,
                  WriteBlock write) {
  for (int64_t i = 0; i < count; ++i) write(blocks + i * bytes, out + i * weights);
}

// Q5_0 and Q5_1: the fifth bits of 32 weights, of which weight j has bit j.
int FiveBits(const std::byte* fifth, const std::byte* codes, int weight) {
  const int low = weight < 16 ? Low(codes[weight]) : High(codes[weight - 16]);
  return low | Bit(fifth[weight / 8], weight % 8) << 4;
}

// Q4_K and Q5_K: the scale and the minimum of each of eight runs, six bits each in 12 bytes.
struct RunScale {
  int scale;
  int minimum;
};
RunScale SixBits(const std::byte* packed, int run) {
  const auto at = [&](int i) { return std::to_integer<int>(packed[i]); };
  if (run < 4) return {at(run) & 63, at(run + 4) & 63};
  return {(at(run + 4) & 15) | at(run - 4) >> 6 << 4, at(run + 4) >> 4 | at(run) >> 6 << 4};
}

// Q3_K: one of 16 scales of six bits in 12 bytes: the low four bits as halves of the first eight
// bytes, the upper two in the last four.
int SixBitScale(const std::byte* packed, int run) {
  const int low = run < 8 ? Low(packed[run]) : High(packed[run - 8]);
  return low | TwoBits(packed[8 + run % 4], run / 4) << 4;
}

// Q2_K, Q3_K and Q6_K: two bits of weight w: each half of 128 weights has 32 bytes, of which the
// lowest pairs are the first 32 weights.
int TwoBitsOf(const std::byte* packed, int weight) {
  return TwoBits(packed[weight / 128 * 32 + weight % 32], weight % 128 / 32);
}

// Q4_K and Q5_K: the low four bits of weight w: runs 2i and 2i + 1 are the halves of 32 bytes.
int FourBitsOf(const std::byte* packed, int weight) {
  const std::byte byte = packed[weight / 64 * 32 + weight % 32];
  return weight % 64 < 32 ? Low(byte) : High(byte);
}

constexpr float kE2M1[16] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                             -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};

// 2^(code - 127); the code 255 is no number.
float PowerOfTwo(std::byte code) {
  const int exponent = std::to_integer<int>(code);
  return exponent == 255 ? std::nanf("") : std::ldexp(1.0f, exponent - 127);
}

}  // namespace

void DecodeGgufF32(const std::byte* blocks, int64_t count, float* out) {
  if (count > 0) std::memcpy(out, blocks, static_cast<size_t>(count) * sizeof(float));
}

void DecodeGgufF16(const std::byte* blocks, int64_t count, float* out) {
  for (int64_t i = 0; i < count; ++i) out[i] = HalfAt(blocks + 2 * i);
}

void DecodeGgufBF16(const std::byte* blocks, int64_t count, float* out) {
  for (int64_t i = 0; i < count; ++i) out[i] = FloatFromBFloat16(WordAt(blocks + 2 * i));
}

void DecodeQ4_0(const std::byte* blocks, int64_t count, float* out) {
  ForEachBlock(blocks, count, 18, kShort, out, [](const std::byte* block, float* to) {
    const float d = HalfAt(block);
    for (int j = 0; j < 16; ++j) {
      to[j] = d * static_cast<float>(Low(block[2 + j]) - 8);
      to[j + 16] = d * static_cast<float>(High(block[2 + j]) - 8);
    }
  });
}

void DecodeQ4_1(const std::byte* blocks, int64_t count, float* out) {
  ForEachBlock(blocks, count, 20, kShort, out, [](const std::byte* block, float* to) {
    const float d = HalfAt(block), m = HalfAt(block + 2);
    for (int j = 0; j < 16; ++j) {
      to[j] = d * static_cast<float>(Low(block[4 + j])) + m;
      to[j + 16] = d * static_cast<float>(High(block[4 + j])) + m;
    }
  });
}

void DecodeQ5_0(const std::byte* blocks, int64_t count, float* out) {
  ForEachBlock(blocks, count, 22, kShort, out, [](const std::byte* block, float* to) {
    const float d = HalfAt(block);
    for (int j = 0; j < kShort; ++j) {
      to[j] = d * static_cast<float>(FiveBits(block + 2, block + 6, j) - 16);
    }
  });
}

void DecodeQ5_1(const std::byte* blocks, int64_t count, float* out) {
  ForEachBlock(blocks, count, 24, kShort, out, [](const std::byte* block, float* to) {
    const float d = HalfAt(block), m = HalfAt(block + 2);
    for (int j = 0; j < kShort; ++j) {
      to[j] = d * static_cast<float>(FiveBits(block + 4, block + 8, j)) + m;
    }
  });
}

void DecodeQ8_0(const std::byte* blocks, int64_t count, float* out) {
  ForEachBlock(blocks, count, 34, kShort, out, [](const std::byte* block, float* to) {
    const float d = HalfAt(block);
    for (int j = 0; j < kShort; ++j) to[j] = d * static_cast<float>(Signed(block[2 + j]));
  });
}

void DecodeGgufMxfp4(const std::byte* blocks, int64_t count, float* out) {
  ForEachBlock(blocks, count, 17, kShort, out, [](const std::byte* block, float* to) {
    const float d = PowerOfTwo(block[0]);
    for (int j = 0; j < 16; ++j) {
      to[j] = d * kE2M1[Low(block[1 + j])];
      to[j + 16] = d * kE2M1[High(block[1 + j])];
    }
  });
}

// 16 bytes of scale and minimum, 64 of codes, d, dmin.
void DecodeQ2K(const std::byte* blocks, int64_t count, float* out) {
  ForEachBlock(blocks, count, 84, kLong, out, [](const std::byte* block, float* to) {
    const float d = HalfAt(block + 80), dmin = HalfAt(block + 82);
    for (int w = 0; w < kLong; ++w) {
      const std::byte run = block[w / kScaleRun];
      to[w] = d * static_cast<float>(Low(run) * TwoBitsOf(block + 16, w)) -
              dmin * static_cast<float>(High(run));
    }
  });
}

// 32 bytes of third bits, 64 of two bits, 12 of scales, d.
void DecodeQ3K(const std::byte* blocks, int64_t count, float* out) {
  ForEachBlock(blocks, count, 110, kLong, out, [](const std::byte* block, float* to) {
    const float d = HalfAt(block + 108);
    for (int w = 0; w < kLong; ++w) {
      const int scale = SixBitScale(block + 96, w / kScaleRun) - 32;
      const int q = (TwoBitsOf(block + 32, w) | Bit(block[w % 32], w / 32) << 2) - 4;
      to[w] = d * static_cast<float>(scale * q);
    }
  });
}

// d, dmin, 12 bytes of scales, 128 of codes.
void DecodeQ4K(const std::byte* blocks, int64_t count, float* out) {
  ForEachBlock(blocks, count, 144, kLong, out, [](const std::byte* block, float* to) {
    const float d = HalfAt(block), dmin = HalfAt(block + 2);
    for (int run = 0; run < 8; ++run) {
      const RunScale of = SixBits(block + 4, run);
      const float scale = d * static_cast<float>(of.scale);
      const float minimum = dmin * static_cast<float>(of.minimum);
      for (int w = run * kShort; w < (run + 1) * kShort; ++w) {
        to[w] = scale * static_cast<float>(FourBitsOf(block + 16, w)) - minimum;
      }
    }
  });
}

// d, dmin, 12 bytes of scales, 32 of fifth bits, 128 of codes.
void DecodeQ5K(const std::byte* blocks, int64_t count, float* out) {
  ForEachBlock(blocks, count, 176, kLong, out, [](const std::byte* block, float* to) {
    const float d = HalfAt(block), dmin = HalfAt(block + 2);
    for (int run = 0; run < 8; ++run) {
      const RunScale of = SixBits(block + 4, run);
      const float scale = d * static_cast<float>(of.scale);
      const float minimum = dmin * static_cast<float>(of.minimum);
      for (int w = run * kShort; w < (run + 1) * kShort; ++w) {
        const int q = FourBitsOf(block + 48, w) | Bit(block[16 + w % 32], run) << 4;
        to[w] = scale * static_cast<float>(q) - minimum;
      }
    }
  });
}

// 128 bytes of low bits, 64 of upper two, 16 signed scales, d. In each half of 128 weights, runs of
// 32: the low halves of bytes 0-31 and 32-63, then their high halves.
void DecodeQ6K(const std::byte* blocks, int64_t count, float* out) {
  ForEachBlock(blocks, count, 210, kLong, out, [](const std::byte* block, float* to) {
    const float d = HalfAt(block + 208);
    for (int w = 0; w < kLong; ++w) {
      const std::byte codes = block[w / 128 * 64 + w % 64];
      const int low = w % 128 < 64 ? Low(codes) : High(codes);
      const int q = (low | TwoBitsOf(block + 128, w) << 4) - 32;
      to[w] = d * static_cast<float>(Signed(block[192 + w / kScaleRun]) * q);
    }
  });
}

// ---- Scales of two levels ----

namespace {

constexpr uint16_t kHalfOne = 0x3c00, kHalfSign = 0x8000;

// Weights [32 part, 32 part + 32) of a block of Q4_K or Q5_K.
TwoLevelPart PartOfRun(const std::byte* block, int64_t part) {
  const RunScale run = SixBits(block + 4, static_cast<int>(part));
  const auto scale = static_cast<int8_t>(run.scale);
  return {.d = WordAt(block),
          .e = WordAt(block + 2),
          .scales = {scale, scale},
          .minimum = static_cast<uint8_t>(run.minimum)};
}

// Of Q4_1 and Q5_1, which add a minimum of their own.
TwoLevelPart PartWithMinimum(const std::byte* block) {
  return {.d = WordAt(block),
          .e = static_cast<uint16_t>(WordAt(block + 2) ^ kHalfSign),
          .scales = {1, 1},
          .minimum = 1};
}

}  // namespace

TwoLevelPart ReadQ4_1(const std::byte* block, int64_t /*part*/) {
  TwoLevelPart found = PartWithMinimum(block);
  for (int j = 0; j < 16; ++j) {
    found.numbers[j] = static_cast<int8_t>(Low(block[4 + j]));
    found.numbers[j + 16] = static_cast<int8_t>(High(block[4 + j]));
  }
  return found;
}

TwoLevelPart ReadQ5_0(const std::byte* block, int64_t /*part*/) {
  TwoLevelPart found{.d = WordAt(block), .e = kHalfOne, .scales = {1, 1}, .minimum = 0};
  for (int j = 0; j < kShort; ++j) {
    found.numbers[j] = static_cast<int8_t>(FiveBits(block + 2, block + 6, j) - 16);
  }
  return found;
}

TwoLevelPart ReadQ5_1(const std::byte* block, int64_t /*part*/) {
  TwoLevelPart found = PartWithMinimum(block);
  for (int j = 0; j < kShort; ++j) {
    found.numbers[j] = static_cast<int8_t>(FiveBits(block + 4, block + 8, j));
  }
  return found;
}

TwoLevelPart ReadQ3K(const std::byte* block, int64_t part) {
  TwoLevelPart found{.d = WordAt(block + 108), .e = kHalfOne, .scales = {}, .minimum = 0};
  for (int run = 0; run < 2; ++run) {
    found.scales[run] =
        static_cast<int8_t>(SixBitScale(block + 96, static_cast<int>(2 * part + run)) - 32);
  }
  for (int j = 0; j < kShort; ++j) {
    const int w = static_cast<int>(part) * kShort + j;
    found.numbers[j] =
        static_cast<int8_t>((TwoBitsOf(block + 32, w) | Bit(block[w % 32], w / 32) << 2) - 4);
  }
  return found;
}

TwoLevelPart ReadQ4K(const std::byte* block, int64_t part) {
  TwoLevelPart found = PartOfRun(block, part);
  for (int j = 0; j < kShort; ++j) {
    const int w = static_cast<int>(part) * kShort + j;
    found.numbers[j] = static_cast<int8_t>(FourBitsOf(block + 16, w));
  }
  return found;
}

TwoLevelPart ReadQ5K(const std::byte* block, int64_t part) {
  TwoLevelPart found = PartOfRun(block, part);
  for (int j = 0; j < kShort; ++j) {
    const int w = static_cast<int>(part) * kShort + j;
    const int fifth = Bit(block[16 + j], static_cast<int>(part));
    found.numbers[j] = static_cast<int8_t>(FourBitsOf(block + 48, w) | fifth << 4);
  }
  return found;
}

TwoLevelPart ReadQ6K(const std::byte* block, int64_t part) {
  TwoLevelPart found{.d = WordAt(block + 208), .e = kHalfOne, .scales = {}, .minimum = 0};
  for (int run = 0; run < 2; ++run) {
    found.scales[run] = static_cast<int8_t>(Signed(block[192 + 2 * part + run]));
  }
  for (int j = 0; j < kShort; ++j) {
    const int w = static_cast<int>(part) * kShort + j;
    const std::byte codes = block[w / 128 * 64 + w % 64];
    const int low = w % 128 < 64 ? Low(codes) : High(codes);
    found.numbers[j] = static_cast<int8_t>((low | TwoBitsOf(block + 128, w) << 4) - 32);
  }
  return found;
}

}  // namespace sluice
