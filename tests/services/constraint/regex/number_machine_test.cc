#include "services/constraint/regex/number_machine.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>

namespace sluice {
namespace {

bool Accepts(NumberMachine& machine, const std::string& text) {
  uint32_t state = machine.start();
  for (const char c : text) {
    state = machine.Step(state, c);
    if (state == NumberMachine::kDead) return false;
  }
  return machine.IsAccepting(state);
}

TEST(NumberMachine, TakesJsonsNumbers) {
  NumberMachine machine({});
  for (const char* text :
       {"0", "-0", "1", "-1.5", "10", "0.001", "1e5", "1.5E-7", "1e+300", "12.50"})
    EXPECT_TRUE(Accepts(machine, text)) << text;
  for (const char* text : {"", "-", "01", "1.", ".5", "+1", "1e", "1e+", "--1", "1.2.3", "0x1"})
    EXPECT_FALSE(Accepts(machine, text)) << text;
}

TEST(NumberMachine, ComparesWithBounds) {
  std::mt19937 random(3);
  const double bounds[] = {0, 1, -1, 10, 9.5, -0.25, 100, 99.99, 0.001, 12345};
  for (const double bound : bounds) {
    char text[32];
    std::snprintf(text, sizeof(text), "%.10g", bound);
    NumberMachine at_least(
        {.bounds = {{.bound = Decimal::Parse(text), .equal = true, .greater = true}}});
    NumberMachine below({.bounds = {{.bound = Decimal::Parse(text), .less = true}}});
    for (int i = 0; i < 3000; ++i) {
      const int decimals = static_cast<int>(random() % 4);
      const double scale = std::pow(10, static_cast<double>(random() % 7) - 1);
      char number[64];
      std::snprintf(number, sizeof(number), "%.*f", decimals,
                    (static_cast<double>(random()) / 4294967296.0 - 0.5) * 2 * scale);
      const double value = std::strtod(number, nullptr);
      EXPECT_EQ(Accepts(at_least, number), value >= bound) << number << " >= " << text;
      EXPECT_EQ(Accepts(below, number), value < bound) << number << " < " << text;
    }
  }
}

TEST(NumberMachine, KeepsMultiples) {
  NumberMachine cents({.multiples = {{.numerator = 1, .scale = 2}}});
  EXPECT_TRUE(Accepts(cents, "2000.01"));
  EXPECT_TRUE(Accepts(cents, "2000.010"));
  EXPECT_FALSE(Accepts(cents, "2000.001"));
  NumberMachine sevens({.multiples = {{.numerator = 7}}});
  NumberMachine not_sevens({.multiples = {{.numerator = 7, .negated = true}}});
  for (int i = -50; i < 200; ++i) {
    EXPECT_EQ(Accepts(sevens, std::to_string(i)), i % 7 == 0) << i;
    EXPECT_EQ(Accepts(not_sevens, std::to_string(i)), i % 7 != 0) << i;
  }
  NumberMachine halves({.multiples = {{.numerator = 5, .scale = 1}}});
  EXPECT_TRUE(Accepts(halves, "1e+308"));
  EXPECT_TRUE(Accepts(halves, "4.5"));
  EXPECT_FALSE(Accepts(halves, "4.6"));
}

TEST(NumberMachine, KnowsWholeNumbers) {
  NumberMachine integer({.integer = true});
  for (const char* text : {"0", "-7", "5.0", "1e+16"}) EXPECT_TRUE(Accepts(integer, text)) << text;
  for (const char* text : {"0.5", "5.00", "5e-3", "1.5"})
    EXPECT_FALSE(Accepts(integer, text)) << text;
  // What is whole is no infinite double, nor is what is not 0 a double that is.
  const std::string digits(400, '7');
  EXPECT_TRUE(Accepts(integer, digits));
  EXPECT_FALSE(Accepts(integer, digits + ".0"));
  EXPECT_TRUE(Accepts(integer, digits.substr(0, 18) + ".0"));
  for (const char* text : {"9e307", "1e+308", "9e+07"}) EXPECT_TRUE(Accepts(integer, text)) << text;
  for (const char* text : {"2e308", "1e309", "1e+999"})
    EXPECT_FALSE(Accepts(integer, text)) << text;
  NumberMachine plain({.integer = true, .plain_integers = true});
  for (const char* text : {"0", "-7", "10"}) EXPECT_TRUE(Accepts(plain, text)) << text;
  for (const char* text : {"5.0", "5e0", "5E+2", "-0", "-0.0", "-"})
    EXPECT_FALSE(Accepts(plain, text)) << text;
  NumberMachine broken({.not_integer = true});
  EXPECT_TRUE(Accepts(broken, "0.5"));
  EXPECT_FALSE(Accepts(broken, "5.0"));
  EXPECT_FALSE(Accepts(broken, "5"));
}

TEST(NumberMachine, PlacesExponentsWithoutTheirDigits) {
  NumberMachine machine(
      {.bounds = {{.bound = Decimal::Parse("1000"), .less = true, .equal = true}}});
  EXPECT_TRUE(Accepts(machine, "1e2"));
  EXPECT_TRUE(Accepts(machine, "-9.5e+300"));
  EXPECT_FALSE(Accepts(machine, "1e4"));
  NumberMachine positive({.bounds = {{.bound = Decimal::Parse("0"), .greater = true}}});
  EXPECT_TRUE(Accepts(positive, "1e-308"));
  EXPECT_FALSE(Accepts(positive, "1e-400"));
  EXPECT_FALSE(Accepts(machine, "12e1"));  // a spelling that it does not need
}

}  // namespace
}  // namespace sluice
