// A moment as the clock on the wall shows it, and Python's strftime. A plain value.
#pragma once

#include <string>
#include <string_view>

namespace sluice::jinja {

struct LocalTime {
  int year = 1970;
  int month = 1;  // 1 to 12
  int day = 1;    // 1 to 31
  int hour = 0;
  int minute = 0;
  int second = 0;
  int microsecond = 0;

  int DayOfWeek() const;  // Sunday is 0
  int DayOfYear() const;  // January 1 is 0
};

// In the C locale, without a time zone. A directive that there is none of stays as it is.
std::string FormatTime(std::string_view format, const LocalTime& time);

}  // namespace sluice::jinja
