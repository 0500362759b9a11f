// Numbers as people read them.
#pragma once

#include <cstdint>
#include <string>

namespace quern {

/// 1003854 as "1,003,854".
std::string grouped(std::int64_t value);

/// Three significant digits and a power of 1,000: 41234 as "41.2k", 10.7e6 as "10.7M", 12 as "12".
std::string compact(double value);

/// Bytes as "512 B", "55.7 MiB", "1.1 GiB": powers of 1,024, three digits at most.
std::string binary_size(std::int64_t bytes);

/// Seconds as "0:05" (m:ss), "1:02:10" (h:mm:ss), "3d 04h"; "?" when negative, not finite or beyond 30,000
/// years.
std::string clock_time(double seconds);

/// The same, but "0.85 s" and "12.3 s" below a minute.
std::string duration(double seconds);

/// `digits` significant digits in the shortest scientific form: 0.00057 as "5.7e-4"; between 0.01 and 9999
/// without an exponent; "nan" and "inf" as such.
std::string scientific(double value, int digits);

/// `decimals` digits after the point: "1.873"; "nan" and "inf" as such.
std::string fixed(double value, int decimals);

}  // namespace quern
