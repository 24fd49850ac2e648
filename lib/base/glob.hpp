#pragma once

#include <string>
#include <string_view>

namespace rowlock::base {

/// A pattern for names: fnmatch(3) without flags, byte by byte in every locale.
class glob {
 public:
  /// Empty: all names.
  explicit glob(std::string pattern) : pattern_(std::move(pattern)) {}

  bool matches(std::string const& name) const noexcept;
  /// A pattern for SQL's LIKE with ESCAPE '|', in ASCII. In any dialect it accepts all names that matches()
  /// accepts.
  std::string like() const;
  /// An ASCII prefix of all matching names, not always the longest.
  std::string prefix() const;

 private:
  std::string pattern_;
};

}  // namespace rowlock::base
