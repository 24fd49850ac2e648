// Statements for other names than the shipped ones: only the names change, and no schema's name ends its
// quotes.
#include <algorithm>
#include <array>
#include <rowlock/error.hpp>

#include "backend/mysql/dialect.hpp"
#include "backend/postgresql/dialect.hpp"
#include "backend/sqlite/dialect.hpp"
#include "backend/statement_book.hpp"
#include "fuzz/bytes.hpp"

using namespace rowlock;

namespace {

std::string without(char quote, std::string text) {
  std::erase(text, quote);
  return text;
}

// A quoted name at the beginning, as every one of these databases reads it. @return it, with what comes
// behind it
std::pair<std::string, std::string_view> unquoted(std::string_view text, char quote) {
  fuzz::must(text.starts_with(quote));
  std::string name;
  for (std::size_t i = 1;; ++i) {
    fuzz::must(i < text.size());
    if (text[i] == quote) {
      if (i + 1 == text.size() || text[i + 1] != quote) return {name, text.substr(i + 1)};
      ++i;
    }
    name += text[i];
  }
}

// What a session has found as the tables' schema may be any text.
void schema_stays_in_its_quotes(backend::table_names names, std::string const& found) {
  if (found.empty()) return;
  names.schema = found;
  auto const table = names.table("locks");
  auto const [schema, behind] = unquoted(table, names.quote);
  fuzz::must(schema == found && behind.starts_with('.'));
  auto const [name, nothing] = unquoted(behind.substr(1), names.quote);
  fuzz::must(name == names.prefix + "locks" && nothing.empty());
}

void read(fuzz::bytes& all) {
  std::array<backend::dialect const*, 3> const dialects{&backend::sqlite::sqlite_dialect(),
                                                        &backend::postgresql::postgresql_dialect(),
                                                        &backend::mysql::mysql_dialect()};
  auto d = *dialects.at(all.below(dialects.size()));
  auto const schema = all.text(all.below(4));
  auto const prefix = all.below(2) == 0 ? std::string("rowlock_") : all.text(all.below(16));
  auto const found = all.text(all.below(16));
  auto const text = all.rest();

  backend::table_names const usual{"", "rowlock_", d.quote};
  fuzz::must(without(d.quote, usual.render(text)) == without(d.quote, text));
  schema_stays_in_its_quotes(usual, found);

  // A dialect of which two statements are this text.
  std::array<backend::sql_text, 2> const two{{{"lock_read", text}, {"lock_take", text}}};
  d.statements = two;
  backend::statement_book book(d, backend::table_names::of(d, schema, prefix));
  fuzz::must(book.at("lock_take").sql == book.tables().render(text));
  fuzz::must(book.at("lock_read").sql == book.at("lock_take").sql);
  (void)book.at("permits_lock_read");
  (void)book.settle(found);
  fuzz::must(book.at("lock_take").sql == book.tables().render(text));
  (void)d.migrating.as_script(text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  fuzz::bytes all({data, size});
  try {
    read(all);
  } catch (error const& e) {
    fuzz::must(e.reason() == errc::invalid_argument);  // of schema and prefix
  }
  return 0;
}
