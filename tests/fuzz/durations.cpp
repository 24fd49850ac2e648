// What people write for a time, and what they are told of one.
#include "duration.hpp"

#include "fuzz/bytes.hpp"

using namespace rowlock;
using std::chrono::milliseconds;

namespace {

constexpr milliseconds longest = std::chrono::hours(24 * 366) * 100;

void is_sound(std::optional<milliseconds> const& read) {
  if (!read) return;
  fuzz::must(*read >= milliseconds{0} && *read <= longest);
  fuzz::must(tool::parse_duration(tool::exact_duration(*read)) == read);
  fuzz::must(!tool::format_duration(*read).empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  auto const text = fuzz::as_text(data, size);
  auto const exact = tool::parse_duration(text);
  auto const seconds = tool::parse_seconds(text);
  is_sound(exact);
  is_sound(seconds);
  if (exact) fuzz::must(seconds.has_value());
  // Of a row: any time that its database could count.
  fuzz::bytes all({data, size});
  fuzz::must(!tool::format_duration(milliseconds(all.number())).empty());
  return 0;
}
