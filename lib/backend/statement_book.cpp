#include "backend/statement_book.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <rowlock/error.hpp>

namespace rowlock::backend {
namespace {

constexpr std::array<std::string_view, 33> table_kinds{"locks",
                                                       "tokens",
                                                       "reach",
                                                       "pulse",
                                                       "quarantine",
                                                       "meta",
                                                       "migrations",
                                                       "reaper",
                                                       "permits",
                                                       "quorum",
                                                       "admitted",
                                                       "try_acquire",
                                                       "renew",
                                                       "release",
                                                       "require",
                                                       "add_columns",
                                                       "take_seen",
                                                       "granting",
                                                       "begun",
                                                       "enter_queue",
                                                       "try_acquire_shared",
                                                       "try_acquire_exclusive",
                                                       "try_acquire_permit",
                                                       "permit_seen",
                                                       "take_permit",
                                                       "renew_permit",
                                                       "release_permit",
                                                       "require_permit",
                                                       "try_acquire_once",
                                                       "take_once",
                                                       "done",
                                                       "release_once",
                                                       "admit"};
constexpr std::string_view longest_kind = "try_acquire_exclusive";
constexpr std::string_view shipped_prefix = "rowlock_";

// Of a key, not of a statement's name.
constexpr char const* durable_suffix = " durable";

// Statements that also exist for permits, whose table has the same columns but for `generation`.
constexpr std::array<std::string_view, 13> of_permits_too{
    "lock_read",     "lock_renew_due", "lock_renew",    "lock_check",    "lock_extend",
    "lock_set_note", "lock_idle",      "guard_lock",    "guard_require", "guard_elsewhere",
    "guard_look",    "lock_hidden",    "lock_locked_by"};

// What a statement has between these marks is not for permits.
constexpr std::string_view of_a_lock = "/* of a lock */";
constexpr std::string_view end_of_that = "/* end */";

std::string for_permits(std::string_view sql) {
  constexpr std::string_view locks = "rowlock_locks";
  std::string text(sql);
  for (auto at = text.find(locks); at != text.npos; at = text.find(locks, at + 1))
    text.replace(at, locks.size(), "rowlock_permits");
  for (auto at = text.find(of_a_lock); at != text.npos; at = text.find(of_a_lock, at)) {
    auto const end = text.find(end_of_that, at);
    text.erase(at, end == text.npos ? end : end + end_of_that.size() - at);
  }
  return text;
}

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

void validate_identifier(std::string_view what, std::string_view text, std::size_t longest) {
  bool const plain =
      !text.empty() && !(text[0] >= '0' && text[0] <= '9') && std::all_of(text.begin(), text.end(), is_word);
  if (!plain)
    throw error(
        errc::invalid_argument,
        fmt::format("{} '{}' must be made of letters, digits and underscores and not begin with a digit",
                    what, text));
  if (text.size() > longest)
    throw error(errc::invalid_argument,
                fmt::format("{} '{}' is longer than the {} bytes that fit", what, text, longest));
}

}  // namespace

void table_names::validate(dialect const& d) const {
  validate_identifier("table prefix", prefix, d.longest_identifier - longest_kind.size());
  if (schema.empty()) return;
  if (!d.has_schemas)
    throw error(errc::invalid_argument,
                fmt::format("{} has no schemas: leave the schema '{}' out, or choose a table prefix", d.name,
                            schema));
  validate_identifier("schema", schema, d.longest_identifier);
}

table_names table_names::of(dialect const& d, std::string schema, std::string prefix) {
  table_names names{std::move(schema), std::move(prefix), d.quote};
  names.validate(d);
  return names;
}

std::string table_names::table(std::string_view what) const {
  if (schema.empty()) return fmt::format("{0}{1}{2}{0}", quote, prefix, what);
  std::string place;  // a named schema is a plain identifier, a found one can be any text
  for (char const c : schema) place.append(c == quote ? 2 : 1, c);
  return fmt::format("{0}{1}{0}.{0}{2}{3}{0}", quote, place, prefix, what);
}

std::string table_names::render(std::string_view sql) const {
  std::string out;
  std::size_t done = 0;
  for (std::size_t at = sql.find(shipped_prefix); at != sql.npos; at = sql.find(shipped_prefix, at + 1)) {
    if (at > 0 && is_word(sql[at - 1])) continue;
    auto end = at + shipped_prefix.size();
    while (end < sql.size() && is_word(sql[end])) ++end;
    auto const what = sql.substr(at + shipped_prefix.size(), end - at - shipped_prefix.size());
    if (std::find(table_kinds.begin(), table_kinds.end(), what) == table_kinds.end()) continue;
    out += sql.substr(done, at - done);
    out += table(what);
    done = end;
  }
  out += sql.substr(done);
  return out;
}

std::string_view behind_marks(std::string_view sql) noexcept {
  while (sql.starts_with("/* ") && sql.find("*/ ") != sql.npos) sql.remove_prefix(sql.find("*/ ") + 3);
  return sql;
}

statement_book::statement_book(dialect const& d, table_names tables)
    : dialect_(d),
      named_(!tables.schema.empty()),
      tables_(std::move(tables)),
      first_(rendered(tables_)),
      now_(first_.get()) {}

std::unique_ptr<statement_book::statements const> statement_book::rendered(table_names const& tables) const {
  auto all = std::make_unique<statements>();
  for (auto const& [name, text] : dialect_.statements)
    all->emplace(name, statement{std::string(name), tables.render(text)});
  for (auto const name : of_permits_too) {
    auto const found = std::find_if(dialect_.statements.begin(), dialect_.statements.end(),
                                    [name](auto const& one) { return one.name == name; });
    if (found == dialect_.statements.end()) continue;
    auto const its = permits_prefix + std::string(name);
    all->emplace(its, statement{its, tables.render(for_permits(found->text))});
  }
  auto const usual = *all;
  for (auto const& [name, one] : usual)
    if (one.sql.starts_with(volatile_mark))
      all->emplace(name + durable_suffix, statement{one.name, one.sql.substr(volatile_mark.size())});
  return all;
}

statement const& statement_book::at(std::string_view name) const {
  auto const& all = *now_.load(std::memory_order_acquire);
  if (auto found = all.find(std::string(name)); found != all.end()) return found->second;
  throw error(errc::failed, fmt::format("no statement named '{}' in this dialect", name));
}

statement const& statement_book::at(std::string_view name, bool durable) const {
  auto const& usual = at(name);
  return durable && usual.sql.starts_with(volatile_mark) ? at(std::string(name) + durable_suffix) : usual;
}

bool statement_book::settle(std::string const& schema) {
  if (named_ || schema.empty()) return true;
  std::lock_guard const guard(mutex_);
  if (settled_) return tables_.schema == schema;
  auto tables = tables_;
  tables.schema = schema;
  settled_ = rendered(tables);
  tables_ = std::move(tables);
  now_.store(settled_.get(), std::memory_order_release);
  return true;
}

table_names statement_book::tables() const {
  std::lock_guard const guard(mutex_);
  return tables_;
}

}  // namespace rowlock::backend
