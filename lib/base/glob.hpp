#pragma once

#include <string>
#include <string_view>

namespace rowlock::base {

/// A pattern for names, as fnmatch(3) has it without flags, byte by byte whatever the locale is.
class glob {
 public:
  /// Empty: all names.
  explicit glob(std::string pattern) : pattern_(std::move(pattern)) {}

  bool matches(std::string const& name) const noexcept;
  /// For SQL's LIKE with ESCAPE '|': what it does not match, matches() does not, either, in any dialect. It
  /// has ASCII characters alone, which every database knows.
  std::string like() const;
  /// ASCII characters that all names begin with; perhaps not all such.
  std::string prefix() const;

 private:
  std::string pattern_;
};

}  // namespace rowlock::base
