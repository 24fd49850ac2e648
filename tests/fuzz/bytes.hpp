#pragma once
// What a target makes of the bytes that it is given.

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace rowlock::fuzz {

/// Bytes from the first to the last; zeros behind them.
class bytes {
 public:
  explicit bytes(std::span<std::uint8_t const> all) : left_(all) {}

  bool empty() const noexcept { return left_.empty(); }
  std::uint8_t next() noexcept {
    if (left_.empty()) return 0;
    auto const first = left_.front();
    left_ = left_.subspan(1);
    return first;
  }
  /// From 0 to `n` - 1.
  std::size_t below(std::size_t n) noexcept { return next() % n; }
  /// Any number at all.
  std::int64_t number() noexcept {
    std::uint64_t all = 0;
    for (int i = 0; i < 8; ++i) all = all << 8 | next();
    return static_cast<std::int64_t>(all);
  }
  /// So many, if there are.
  std::string text(std::size_t size) {
    std::string out;
    while (out.size() < size && !left_.empty()) out += static_cast<char>(next());
    return out;
  }
  std::string rest() { return text(left_.size()); }

 private:
  std::span<std::uint8_t const> left_;
};

inline std::string_view as_text(std::uint8_t const* data, std::size_t size) {
  return {reinterpret_cast<char const*>(data), size};
}

/// Ends the program with a report, which names the input, unless what must hold does.
inline void must(bool holds) {
  if (!holds) __builtin_trap();
}

/// UTF-8 by the table of RFC 3629, without the library that lib asks.
inline bool is_utf8(std::string_view s) {
  auto const in = [&](std::size_t i, unsigned low, unsigned high) {
    auto const byte = i < s.size() ? static_cast<unsigned char>(s[i]) : 0U;
    return byte >= low && byte <= high;
  };
  for (std::size_t i = 0; i < s.size();) {
    auto const lead = static_cast<unsigned char>(s[i]);
    bool const second = lead == 0xe0   ? in(i + 1, 0xa0, 0xbf)
                        : lead == 0xed ? in(i + 1, 0x80, 0x9f)
                        : lead == 0xf0 ? in(i + 1, 0x90, 0xbf)
                        : lead == 0xf4 ? in(i + 1, 0x80, 0x8f)
                                       : in(i + 1, 0x80, 0xbf);
    if (lead < 0x80)
      i += 1;
    else if (lead >= 0xc2 && lead <= 0xdf && second)
      i += 2;
    else if (lead >= 0xe0 && lead <= 0xef && second && in(i + 2, 0x80, 0xbf))
      i += 3;
    else if (lead >= 0xf0 && lead <= 0xf4 && second && in(i + 2, 0x80, 0xbf) && in(i + 3, 0x80, 0xbf))
      i += 4;
    else
      return false;
  }
  return true;
}

}  // namespace rowlock::fuzz
