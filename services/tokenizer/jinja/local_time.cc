#include "services/tokenizer/jinja/local_time.h"

#include <array>
#include <optional>

#include "absl/strings/str_format.h"
#include "absl/time/civil_time.h"

namespace sluice::jinja {
namespace {

constexpr std::array<const char*, 7> kDays = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                              "Thursday", "Friday", "Saturday"};
constexpr std::array<const char*, 12> kMonths = {"January",   "February", "March",    "April",
                                                 "May",       "June",     "July",     "August",
                                                 "September", "October",  "November", "December"};

struct IsoWeek {
  int year;
  int week;
};

int Hour12(const LocalTime& time) { return time.hour % 12 == 0 ? 12 : time.hour % 12; }

// The week of the year's Thursday, weeks beginning on Monday.
IsoWeek IsoWeekOf(const LocalTime& time) {
  const absl::CivilDay day(time.year, time.month, time.day);
  const int from_monday = (time.DayOfWeek() + 6) % 7;
  const absl::CivilDay thursday = day + (3 - from_monday);
  return {static_cast<int>(thursday.year()), (absl::GetYearDay(thursday) - 1) / 7 + 1};
}

std::string Name(const char* name, bool is_short) {
  const std::string text = name;
  return is_short ? text.substr(0, 3) : text;
}

std::optional<std::string> FormatDate(char directive, const LocalTime& time) {
  switch (directive) {
    case 'Y':
      return absl::StrFormat("%d", time.year);
    case 'C':
      return absl::StrFormat("%02d", time.year / 100);
    case 'y':
      return absl::StrFormat("%02d", time.year % 100);
    case 'm':
      return absl::StrFormat("%02d", time.month);
    case 'b':
    case 'h':
      return Name(kMonths[time.month - 1], true);
    case 'B':
      return Name(kMonths[time.month - 1], false);
    case 'd':
      return absl::StrFormat("%02d", time.day);
    case 'e':
      return absl::StrFormat("%2d", time.day);
    case 'j':
      return absl::StrFormat("%03d", time.DayOfYear() + 1);
    case 'a':
      return Name(kDays[time.DayOfWeek()], true);
    case 'A':
      return Name(kDays[time.DayOfWeek()], false);
    case 'w':
      return absl::StrFormat("%d", time.DayOfWeek());
    case 'u':
      return absl::StrFormat("%d", time.DayOfWeek() == 0 ? 7 : time.DayOfWeek());
    case 'U':
      return absl::StrFormat("%02d", (time.DayOfYear() + 7 - time.DayOfWeek()) / 7);
    case 'W':
      return absl::StrFormat("%02d", (time.DayOfYear() + 7 - (time.DayOfWeek() + 6) % 7) / 7);
    case 'G':
      return absl::StrFormat("%d", IsoWeekOf(time).year);
    case 'g':
      return absl::StrFormat("%02d", IsoWeekOf(time).year % 100);
    case 'V':
      return absl::StrFormat("%02d", IsoWeekOf(time).week);
    default:
      return std::nullopt;
  }
}

std::optional<std::string> FormatClock(char directive, const LocalTime& time) {
  switch (directive) {
    case 'H':
      return absl::StrFormat("%02d", time.hour);
    case 'k':
      return absl::StrFormat("%2d", time.hour);
    case 'I':
      return absl::StrFormat("%02d", Hour12(time));
    case 'l':
      return absl::StrFormat("%2d", Hour12(time));
    case 'M':
      return absl::StrFormat("%02d", time.minute);
    case 'S':
      return absl::StrFormat("%02d", time.second);
    case 'f':
      return absl::StrFormat("%06d", time.microsecond);
    case 'p':
      return time.hour < 12 ? "AM" : "PM";
    case 'P':
      return time.hour < 12 ? "am" : "pm";
    case 'z':
    case 'Z':
      return "";
    default:
      return std::nullopt;
  }
}

std::optional<std::string> FormatWhole(char directive, const LocalTime& time) {
  switch (directive) {
    case 'c':
      return FormatTime("%a %b %e %H:%M:%S %Y", time);
    case 'x':
    case 'D':
      return FormatTime("%m/%d/%y", time);
    case 'X':
    case 'T':
      return FormatTime("%H:%M:%S", time);
    case 'F':
      return FormatTime("%Y-%m-%d", time);
    case 'R':
      return FormatTime("%H:%M", time);
    case 'r':
      return FormatTime("%I:%M:%S %p", time);
    case 's': {
      const absl::CivilSecond second(time.year, time.month, time.day, time.hour, time.minute,
                                     time.second);
      return absl::StrFormat("%d", second - absl::CivilSecond(1970));
    }
    case 'n':
      return "\n";
    case 't':
      return "\t";
    case '%':
      return "%";
    default:
      return std::nullopt;
  }
}

// glibc's "%-d": a number without what fills it.
std::string Unpadded(const std::string& number) {
  const size_t first = number.find_first_not_of("0 ");
  return first == std::string::npos ? "0" : number.substr(first);
}

}  // namespace

int LocalTime::DayOfWeek() const {
  const int from_monday = static_cast<int>(absl::GetWeekday(absl::CivilDay(year, month, day)));
  return (from_monday + 1) % 7;
}

int LocalTime::DayOfYear() const { return absl::GetYearDay(absl::CivilDay(year, month, day)) - 1; }

std::string FormatTime(std::string_view format, const LocalTime& time) {
  std::string out;
  for (size_t at = 0; at < format.size(); ++at) {
    if (format[at] != '%' || at + 1 == format.size()) {
      out.push_back(format[at]);
      continue;
    }
    const bool is_unpadded = format[at + 1] == '-' && at + 2 < format.size();
    const char directive = format[at + (is_unpadded ? 2 : 1)];
    std::optional<std::string> text = FormatDate(directive, time);
    if (!text.has_value()) text = FormatClock(directive, time);
    if (!text.has_value()) text = FormatWhole(directive, time);
    if (!text.has_value()) {
      out.push_back('%');
      continue;
    }
    out += is_unpadded ? Unpadded(*text) : *text;
    at += is_unpadded ? 2 : 1;
  }
  return out;
}

}  // namespace sluice::jinja
