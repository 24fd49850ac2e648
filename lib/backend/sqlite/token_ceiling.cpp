#include "backend/sqlite/token_ceiling.hpp"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <optional>

#include "backend/embedded.hpp"
#include "base/never_destroyed.hpp"
#include "base/random_id.hpp"

namespace rowlock::backend::sqlite {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view mark = "/* draws by ";
constexpr std::string_view mark_end = " */";

// The kernel's; where it can't be read, each process is one boot.
std::string const& boot_id() {
  static auto const& id = base::never_destroyed<std::string>([] {
    std::string found;
    std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), found);
    return found.empty() ? base::random_id() : found;
  }());
  return id;
}

std::string for_table(std::string_view statement, std::string_view table) {
  constexpr std::string_view shipped = "rowlock_meta";
  auto const all = embedded_sqlite_statements();
  auto const found =
      std::find_if(all.begin(), all.end(), [&](auto const& one) { return one.name == statement; });
  std::string text(found->text);
  for (auto at = text.find(shipped); at != text.npos; at = text.find(shipped, at + table.size()))
    text.replace(at, shipped.size(), table);
  return text;
}

int run(sqlite3* db, std::string_view statement, std::string_view table, std::int64_t* returned) {
  auto const text = for_table(statement, table);
  sqlite3_stmt* made = nullptr;
  if (int const code = sqlite3_prepare_v2(db, text.c_str(), -1, &made, nullptr); code != SQLITE_OK)
    return code;
  prepared_statement const owned(made);
  auto const& boot = boot_id();
  sqlite3_bind_text(made, 1, boot.data(), static_cast<int>(boot.size()), SQLITE_STATIC);
  std::optional<std::int64_t> found;
  int code = sqlite3_step(made);
  if (code == SQLITE_ROW) {
    found = sqlite3_column_int64(made, 0);
    code = sqlite3_step(made);  // commits
  }
  if (code == SQLITE_DONE) code = sqlite3_reset(made);
  if (code == SQLITE_OK && found && returned != nullptr) *returned = *found;
  return code;
}

}  // namespace

token_ceiling::token_ceiling(sqlite3* db) {
  sqlite3_create_function_v2(db, "rowlock_drawn", 1, SQLITE_UTF8 | SQLITE_DIRECTONLY, this, &drawn, nullptr,
                             nullptr, nullptr);
}

std::string_view token_ceiling::table_of(std::string_view sql) noexcept {
  while (sql.starts_with("/* ")) {
    auto const end = sql.find(mark_end);
    if (end == sql.npos) break;
    if (sql.starts_with(mark)) return sql.substr(mark.size(), end - mark.size());
    sql.remove_prefix(std::min(sql.size(), end + mark_end.size() + 1));
  }
  return {};
}

// A number that does not fit is no integer any more: its column refuses it.
void token_ceiling::drawn(sqlite3_context* context, int /*count*/, sqlite3_value** values) noexcept {
  auto& self = *static_cast<token_ceiling*>(sqlite3_user_data(context));
  bool const above =
      sqlite3_value_type(values[0]) == SQLITE_INTEGER && sqlite3_value_int64(values[0]) > self.ceiling_;
  if (self.any_) self.reached_ = false;
  if (!above || self.any_) return sqlite3_result_value(context, values[0]);
  self.reached_ = true;
  sqlite3_result_error(context, "the token is above token_ceiling: begin anew", -1);
}

bool token_ceiling::is_due() const noexcept {
  auto const soon = (std::chrono::system_clock::now() + 10s).time_since_epoch();
  return ceiling_ < std::chrono::duration_cast<std::chrono::microseconds>(soon).count();
}

int token_ceiling::look(sqlite3* db, std::string_view table) {
  return run(db, "file_ceiling", table, &ceiling_);
}

int token_ceiling::raise(sqlite3* db, std::string_view table) {
  return run(db, "file_raise_ceiling", table, &ceiling_);
}

int token_ceiling::look_at_boot(sqlite3* db, std::string_view table) {
  return run(db, "file_boot", table, nullptr);
}

std::string token_ceiling::without_function(std::string sql) {
  constexpr std::string_view name = "rowlock_drawn(";
  for (auto at = sql.find(name); at != sql.npos; at = sql.find(name, at)) sql.erase(at, name.size() - 1);
  return sql;
}

}  // namespace rowlock::backend::sqlite
