#include "guard/guard_statements.hpp"

#include <charconv>
#include <string>
#include <string_view>

#include "backend/dialect.hpp"
#include "holding/hold.hpp"

namespace rowlock::guard {
namespace {

constexpr std::string_view quotes = "'\"`";

/// Writes each $n or ?n outside of quotes as `write(n - 1)`. (A doubled quote ends a part and begins
/// another.)
template <class Write>
std::string with_parameters(std::string_view sql, Write const& write) {
  std::string out;
  for (std::size_t at = 0; at < sql.size();) {
    std::size_t number = 0;
    if (quotes.find(sql[at]) != quotes.npos) {
      auto const end = sql.find(sql[at], at + 1);
      out += sql.substr(at, end == sql.npos ? end : end + 1 - at);
      at = end == sql.npos ? end : end + 1;
    } else if (auto const [end, problem] =
                   std::from_chars(sql.data() + at + 1, sql.data() + sql.size(), number);
               (sql[at] == '$' || sql[at] == '?') && problem == std::errc{}) {
      out += write(number - 1);
      at = static_cast<std::size_t>(end - sql.data());
    } else {
      out += sql[at++];
    }
  }
  return out;
}

guard_statement written(std::string_view sql, std::vector<std::string> const& values, placeholders style,
                        backend::guards_elsewhere const& how) {
  guard_statement out;
  bool const numbered = style == placeholders::native && how.numbered;
  out.text = with_parameters(sql, [&](std::size_t which) -> std::string {
    if (style == placeholders::none) return how.literal(values.at(which));
    if (numbered) return "$" + std::to_string(which + 1);
    out.values.push_back(values.at(which));
    return "?";
  });
  if (numbered) out.values = values;
  return out;
}

}  // namespace

std::vector<guard_statement> guard_statements(required_lock const& lock, placeholders style) {
  lock.manager->refuse_if_forked();
  expect_requirable(lock);
  auto& parts = lock.manager->parts();
  auto const& facts = lock.hold->facts();
  auto const& how = parts.database.sql().elsewhere;
  std::vector<std::string> const values{facts.name, facts.term.value, parts.database.id()};
  std::string const kind = holding::traits_of(facts).counted ? backend::permits_prefix : "";
  std::vector<guard_statement> all;
  for (auto const name : how.statements) {
    auto const& sql = parts.database.statements().at(kind + std::string(name)).sql;
    all.push_back(written(std::string(how.before) + sql, values, style, how));
  }
  return all;
}

}  // namespace rowlock::guard
