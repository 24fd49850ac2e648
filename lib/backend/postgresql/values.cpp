#include "backend/postgresql/values.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstring>
#include <memory>
#include <rowlock/error.hpp>

#include "backend/postgresql/native.hpp"

namespace rowlock::backend::postgresql {
namespace {

// Constants of pg_type. Their header is the server's, not libpq's.
constexpr Oid type_bool = 16;
constexpr Oid type_int8 = 20;
constexpr Oid type_int2 = 21;
constexpr Oid type_int4 = 23;

std::int64_t parse(std::string_view text) {
  std::int64_t number = 0;
  auto const [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc{} || end != text.data() + text.size())
    throw error(errc::failed, fmt::format("the database returned '{}' where a number was expected", text));
  return number;
}

value decode_field(PGresult const* r, int row, int column) {
  if (PQgetisnull(r, row, column) != 0) return nullptr;
  std::string_view const text(PQgetvalue(r, row, column),
                              static_cast<std::size_t>(PQgetlength(r, row, column)));
  switch (PQftype(r, column)) {
    case type_bool:
      return std::int64_t{text == "t"};
    case type_int2:
    case type_int4:
    case type_int8:
      return parse(text);
    default:
      return std::string(text);
  }
}

}  // namespace

text_parameters::text_parameters(std::span<value const> values, std::string const& statement) {
  numbers_.reserve(values.size());  // the pointers below must not move
  pointers_.reserve(values.size());
  for (auto const& v : values) {
    if (is_null(v)) {
      pointers_.push_back(nullptr);
      continue;
    }
    if (auto const* number = std::get_if<std::int64_t>(&v)) {
      pointers_.push_back(numbers_.emplace_back(fmt::to_string(*number)).c_str());
    } else {
      auto const& text = std::get<std::string>(v);
      // libpq would cut the text there, to another name.
      if (text.find('\0') != std::string::npos)
        throw error(errc::invalid_argument, fmt::format("{}: text must not contain U+0000", statement),
                    statement, "", 0);
      pointers_.push_back(text.c_str());
    }
  }
}

std::vector<std::string> literals(PGconn* c, std::span<value const> values, std::string const& statement) {
  text_parameters const texts(values, statement);
  std::vector<std::string> out;
  for (char const* const text : std::span(texts.data(), values.size())) {
    if (text == nullptr) {
      out.emplace_back("NULL");
      continue;
    }
    std::unique_ptr<char, decltype(&PQfreemem)> const quoted(PQescapeLiteral(c, text, std::strlen(text)),
                                                             &PQfreemem);
    if (!quoted)
      throw error(errc::invalid_argument, fmt::format("{}: {}", statement, one_line(PQerrorMessage(c))),
                  statement, "", 0);
    out.emplace_back(quoted.get());
  }
  return out;
}

// No statement has a $ in a quoted part, and no table's name has one.
std::string with_literals(std::string_view sql, std::span<std::string const> literals) {
  std::string out;
  for (auto at = sql.find('$'); at != sql.npos; at = sql.find('$')) {
    std::size_t number = 0;
    auto const [end, problem] = std::from_chars(sql.data() + at + 1, sql.data() + sql.size(), number);
    if (problem != std::errc{} || number == 0 || number > literals.size())
      throw error(errc::failed, fmt::format("a parameter is missing in: {}", sql));
    out.append(sql.substr(0, at)).append(literals[number - 1]);
    sql.remove_prefix(static_cast<std::size_t>(end - sql.data()));
  }
  return out.append(sql);
}

result decode(PGresult const* r) {
  result out;
  if (r == nullptr) return out;
  int const rows = PQntuples(r);
  int const columns = PQnfields(r);
  out.rows.reserve(static_cast<std::size_t>(rows));
  for (int i = 0; i < rows; ++i) {
    auto& one = out.rows.emplace_back();
    one.reserve(static_cast<std::size_t>(columns));
    for (int j = 0; j < columns; ++j) one.push_back(decode_field(r, i, j));
  }
  // PQcmdTuples takes no const result, and also counts the rows of a SELECT.
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast)
  auto* counted = const_cast<PGresult*>(r);
  std::string_view const tag = PQcmdStatus(counted);
  std::string_view const affected = PQcmdTuples(counted);
  if (!affected.empty() && tag.substr(0, 6) != "SELECT") out.affected = parse(affected);
  return out;
}

}  // namespace rowlock::backend::postgresql
