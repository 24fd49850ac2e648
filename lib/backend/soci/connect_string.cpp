#include "backend/soci/connect_string.hpp"

#include <soci/connection-parameters.h>
#include <soci/session.h>

#include <algorithm>

namespace rowlock::backend::soci {
namespace {

// SOCI keeps it private. (An explicit instantiation may name a private member.)
using parameters_of_session = ::soci::connection_parameters(::soci::session::*);

template <parameters_of_session Member>
struct shown {
  friend parameters_of_session last_parameters() { return Member; }
};
parameters_of_session last_parameters();
template struct shown<&::soci::session::lastConnectParameters_>;

constexpr std::string_view blanks = " \t\r\n\v\f";

/// `name = value` pairs with blanks between them. A value can stand in single quotes. A backslash takes the
/// next character as it is.
class pairs {
 public:
  explicit pairs(std::string_view text) : rest_(text) {}
  bool next() {
    skip_blanks();
    auto const equals = rest_.find('=');
    if (equals == rest_.npos) return false;
    name = rest_.substr(0, equals);
    name = name.substr(0, name.find_last_not_of(blanks) + 1);
    rest_.remove_prefix(equals + 1);
    skip_blanks();
    read_value();
    return true;
  }
  std::string_view name;
  std::string value;

 private:
  void skip_blanks() { rest_.remove_prefix(std::min(rest_.size(), rest_.find_first_not_of(blanks))); }
  void read_value() {
    value.clear();
    bool const quoted = rest_.starts_with('\'');
    std::size_t at = quoted ? 1 : 0;
    for (; at < rest_.size(); ++at) {
      if (quoted ? rest_[at] == '\'' : blanks.find(rest_[at]) != blanks.npos) break;
      if (rest_[at] == '\\' && at + 1 < rest_.size()) ++at;
      value += rest_[at];
    }
    rest_.remove_prefix(std::min(rest_.size(), at + (quoted ? 1 : 0)));
  }

  std::string_view rest_;
};

}  // namespace

std::string connect_string_of(::soci::session const& s) {
  return (s.*last_parameters()).get_connect_string();
}

std::optional<std::string> mysql_database_in(std::string_view connect_string) {
  for (pairs one(connect_string); one.next();)
    if (one.name == "db" || one.name == "dbname" || one.name == "service") return one.value;
  return std::nullopt;
}

}  // namespace rowlock::backend::soci
