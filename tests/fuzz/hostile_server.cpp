#include "fuzz/hostile_server.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

namespace rowlock::fuzz {
namespace {

using backend::value;

/// More than any call asks that comes to an end.
constexpr int most_answers = 300;
constexpr std::size_t columns_of_a_lock = 17;

// n the name, k its strategy, m its term, c its takeover, t a text, T none, i 1, z 0, d a duration in
// milliseconds, e when it ends, u microseconds since 1970, v a version of the tables. What begins with '-'
// has no row by rights.
constexpr std::pair<std::string_view, std::string_view> shapes[] = {
    {"all_read", "nkmititizdcueztzd"},
    {"all_release", "nz"},
    {"all_take", "ni"},
    {"all_take_done", "ni"},
    {"at_once_draw", "i"},
    {"doctor_clock", "u"},
    {"doctor_creators", "-t"},
    {"doctor_damage", "-tt"},
    {"doctor_explain", "tttt"},
    {"doctor_limits", "-nii"},
    {"doctor_replicas", "zzz"},
    {"doctor_session", "tt"},
    {"doctor_settings", "tt"},
    {"doctor_status", "tt"},
    {"doctor_tables", "ttiiizz"},
    {"each_take", "ni"},
    {"lock_check", "mzz"},
    {"lock_hidden", "z"},
    {"lock_idle", "t"},
    {"lock_list", "nkmititizdcueztzd"},
    {"lock_list_end", "n"},
    {"lock_locked_by", "nittt"},
    {"lock_next_take", "i"},
    {"lock_read", "nkmititizdcueztzd"},
    {"lock_release", "z"},
    {"lock_renew", "m"},
    {"lock_renew_due", "nm"},
    {"lock_take", "i"},
    {"lock_waiters", "nitt"},
    {"meta_lineage", "t"},
    {"meta_read", "tvi"},
    {"meta_views", "-t"},
    {"migrate_enter", "i"},
    {"migrate_held", "-n"},
    {"migrate_highest_admitted", "z"},
    {"migrate_highest_token", "z"},
    {"migrate_in_the_way", "ittti"},
    {"migrate_records", "ittt"},
    {"migrate_routines_missing", "-t"},
    {"migrate_schema_there", "i"},
    {"migrate_strangers", "-tt"},
    {"migrate_version", "vit"},
    {"permit_anchor", "t"},
    {"permit_expired", "m"},
    {"permit_look", "kdzzz"},
    {"permit_purge_done", "i"},
    {"permit_release", "z"},
    {"permit_take", "i"},
    {"permit_token", "i"},
    {"permit_units", "nmii"},
    {"quorum_read", "tittditui"},
    {"quorum_take", "i"},
    {"reap_floor", "i"},
    {"reap_kept", "nkmzi"},
    {"reap_last", "uutit"},
    {"reap_locks_delete", "k"},
    {"reap_locks_due", "nk"},
    {"reap_locks_look", "iniiiiiiii"},
    {"reap_permits_look", "nmi"},
    {"reap_tokens_delete", "i"},
    {"reap_tokens_due", "n"},
    {"reap_tokens_look", "inii"},
    {"row_anchors", "n"},
    {"row_free_anchors", "n"},
    {"row_holders", "ntiut"},
    {"row_ping", "z"},
    {"row_try", "zz"},
    {"row_wait", "zz"},
    {"token_draw", "i"},
    {"token_read", "i"},
    {"unique_release", "z"},
};

constexpr std::array<char const*, 8> tables{"meta",   "locks",   "migrations", "tokens",
                                            "reaper", "permits", "quorum",     "admitted"};
constexpr std::array<char const*, 8> columns{"id",      "database_id", "schema_version", "oldest_reader",
                                             "version", "name",        "checksum",       "applied_at"};

constexpr std::array<char const*, 16> words{
    "lease", "unique_insert", "row_lock",    "once",   "shared",    "semaphore",      "quorum", "clock",
    "on",    "off",           "const table", "InnoDB", "varbinary", "READ-COMMITTED", "wal",    "SEARCH"};

constexpr std::array<errc, 9> errors{errc::row_locked,    errc::unreachable,    errc::in_doubt,
                                     errc::conflict,      errc::schema_missing, errc::failed,
                                     errc::access_denied, errc::storage_full,   errc::read_only};

constexpr std::int64_t this_year = 1'795'000'000'000'000;  // in microseconds

std::string_view shape_of(std::string_view statement) {
  if (statement.starts_with("permits_")) statement.remove_prefix(8);
  auto const* found = std::find_if(std::begin(shapes), std::end(shapes),
                                   [&](auto const& one) { return one.first == statement; });
  return found == std::end(shapes) ? "t" : found->second;
}

std::string const* text_at(std::span<value const> parameters, std::size_t i) {
  return i < parameters.size() ? std::get_if<std::string>(&parameters[i]) : nullptr;
}

std::vector<backend::row> sound_columns() {
  std::vector<backend::row> all;
  for (auto const* column : columns) all.push_back({column, "text"});
  return all;
}

std::vector<backend::row> sound_tables() {
  std::vector<backend::row> all;
  for (auto const* table : tables)
    for (auto const* column : columns) all.push_back({table, column, "text"});
  return all;
}

class hostile_connection final : public backend::connection {
 public:
  hostile_connection(std::shared_ptr<hostile_server> server, backend::dialect const& dialect)
      : server_(std::move(server)), dialect_(dialect) {}

  backend::result execute(backend::statement const& s, std::span<value const> p, boot_time_point) override {
    return until_it_ends([&] { return server_->answer(s, p); });
  }
  std::vector<backend::result> execute_at_once(std::span<backend::step const> steps,
                                               boot_time_point) override {
    return until_it_ends([&] {
      std::vector<backend::result> all;
      for (auto const& one : steps) all.push_back(server_->answer(one.what, one.parameters));
      return all;
    });
  }
  backend::result wait_for_row(backend::statement const& s, std::span<value const> p, boot_time_point,
                               std::chrono::nanoseconds, std::stop_token) override {
    return until_it_ends([&] { return server_->answer(s, p); });
  }
  void script(std::string_view, boot_time_point) override {
    until_it_ends([&] {
      server_->agree("script");
      return 0;
    });
  }
  std::optional<std::string> find_schema(std::string const&, bool, boot_time_point) override {
    return until_it_ends([&] { return server_->schema(dialect_); });
  }
  bool has_queues() const noexcept override { return dialect_.has_queues; }
  backend::queue_entry enter_queue(backend::table_names const&, std::string const&, std::string const&,
                                   boot_time_point, std::chrono::nanoseconds, std::stop_token) override {
    return until_it_ends([&] {
      server_->agree("enter_queue");
      return static_cast<backend::queue_entry>(server_->choose(3));
    });
  }
  bool leave_queue(boot_time_point) override {
    return until_it_ends([&] {
      server_->agree("leave_queue");
      return server_->choose(2) == 1;
    });
  }
  bool usable() const noexcept override { return usable_; }
  std::string const& server_identity() const noexcept override { return identity_; }
  backend::session_facts facts() const override { return {.server_process = 1, .leaves_machine = true}; }
  void close() noexcept override { usable_ = false; }

 private:
  // As a session is of no use any more once a reply was lost.
  template <class F>
  auto until_it_ends(F const& f) -> decltype(f()) {
    if (!usable_) throw error(errc::unreachable, "the session has ended");
    try {
      return f();
    } catch (error const& e) {
      if (e.reason() == errc::unreachable || e.reason() == errc::in_doubt) usable_ = false;
      throw;
    }
  }

  std::shared_ptr<hostile_server> server_;
  backend::dialect const& dialect_;
  std::string const identity_ = "hostile";
  bool usable_ = true;
};

}  // namespace

std::unique_ptr<backend::connection> hostile_source::connect(boot_time_point) {
  server_->agree("connect");
  return std::make_unique<hostile_connection>(server_, dialect_);
}

std::uint8_t hostile_server::next(std::string const& statement) {
  if (bytes_.empty() || ++answers_ > most_answers) {
    gave_up_.request_stop();
    throw error(errc::unreachable, "the server is gone", statement, "", 0);
  }
  return bytes_.next();
}

void hostile_server::refuse(std::string const& statement) {
  auto const why = errors.at(bytes_.below(errors.size()));
  gave_up_.request_stop();
  throw error(why, "the server refuses", statement, "XX000", 1);
}

void hostile_server::agree(char const* what) {
  std::lock_guard const guard(mutex_);
  if (next(what) % 8 == 7) refuse(what);
}

std::size_t hostile_server::choose(std::size_t n) {
  std::lock_guard const guard(mutex_);
  return bytes_.below(n);
}

std::optional<std::string> hostile_server::schema(backend::dialect const& d) {
  std::lock_guard const guard(mutex_);
  auto const how = next("find_schema") % 8;
  if (how == 7) refuse("find_schema");
  if (how == 1) return std::nullopt;
  if (!d.has_schemas) return "";
  return how == 6 ? bytes_.text(bytes_.below(32)) : "public";
}

// The one of the attempt that is under way: its row may come back.
void hostile_server::remember_term(std::string const& statement, std::span<value const> parameters) {
  auto const* term = text_at(parameters, 2);
  if (term != nullptr && statement.ends_with("_take")) term_ = *term;
}

value hostile_server::odd_value() {
  switch (bytes_.below(14)) {
    case 0:
      return nullptr;
    case 1:
      return std::numeric_limits<std::int64_t>::max();
    case 2:
      return std::numeric_limits<std::int64_t>::min();
    case 3:
      return std::int64_t{-1};
    case 4:
      return std::int64_t{0};
    case 5:
      return std::int64_t{1} << bytes_.below(63);
    case 6:
      return this_year + bytes_.next();
    case 7:
      return bytes_.number();
    case 8:
      return std::string();
    case 9:
      return std::string(300, 'x');
    case 10:
      return term_;
    case 11:
      return words.at(bytes_.below(words.size()));
    default:
      return bytes_.text(bytes_.below(32));
  }
}

value hostile_server::good_value(char kind, std::span<value const> parameters, bool expired) const {
  switch (kind) {
    case 'n': {
      auto const* name = text_at(parameters, 0);
      return name == nullptr || name->empty() || name->starts_with('[') ? "name" : *name;
    }
    case 'k':
      return strategy_;
    case 'm':
      return term_;
    case 'c':
      return "clock";
    case 't':
      return "text";
    case 'z':
      return std::int64_t{0};
    case 'd':
      return std::int64_t{30'000};
    case 'e':
      return std::int64_t{expired ? -1 : 20'000};
    case 'u':
      return this_year;
    case 'v':
      return version_;
    default:
      return std::int64_t{1};
  }
}

backend::row hostile_server::good_row(std::string_view kinds, std::span<value const> parameters,
                                      bool expired) const {
  backend::row all;
  for (char const kind : kinds)
    if (kind != '-') all.push_back(good_value(kind, parameters, expired));
  return all;
}

std::vector<backend::row> hostile_server::good_rows(std::string const& statement,
                                                    std::span<value const> parameters, std::size_t how) {
  if (statement == "migrate_columns") return sound_columns();
  if (statement == "migrate_columns_expected") return sound_tables();
  auto const kinds = shape_of(statement);
  bool const none = how % 8 == 1 || (how % 8 == 0 && kinds.starts_with('-'));
  if (none) return {};
  return std::vector<backend::row>(how % 8 == 2 ? 3 : 1, good_row(kinds, parameters, how / 8 % 2 == 1));
}

void hostile_server::spoil(std::string const& statement, backend::row& one) {
  auto const cell = bytes_.below(one.size());
  one[cell] = odd_value();
  // It stands by that: a version that is another one at the next look was migrated meanwhile.
  auto const* number = std::get_if<std::int64_t>(&one[cell]);
  if (number != nullptr &&
      shape_of(statement).substr(std::min(cell, shape_of(statement).size())).starts_with('v'))
    version_ = *number;
}

backend::result hostile_server::anything() {
  backend::result r;
  r.rows.resize(bytes_.below(4));
  for (auto& one : r.rows) {
    one.resize(bytes_.below(columns_of_a_lock + 3));
    for (auto& cell : one) cell = odd_value();
  }
  r.affected = bytes_.number();
  if (bytes_.below(2) == 1) r.number = bytes_.number();
  return r;
}

backend::result hostile_server::answer(backend::statement const& s, std::span<value const> parameters) {
  std::lock_guard const guard(mutex_);
  remember_term(s.name, parameters);
  auto const how = next(s.name);
  if (how % 8 == 7) refuse(s.name);
  if (how % 8 == 6) return anything();
  backend::result r{good_rows(s.name, parameters, how), how % 8 == 1 || how % 8 == 3 ? 0 : 1, {}};
  if (r.affected > 0) r.number = 1;
  if (r.rows.empty()) return r;
  if (how % 8 != 4 && how % 8 != 5) return r;
  auto& spoilt = r.rows[bytes_.below(r.rows.size())];
  if (how % 8 == 4)
    spoil(s.name, spoilt);
  else
    spoilt.resize(bytes_.below(spoilt.size()));
  return r;
}

}  // namespace rowlock::fuzz
