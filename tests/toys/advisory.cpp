// A toy strategy with a session of its own: PostgreSQL's advisory lock on the name's hash, for as long as a
// transaction is open. It is all that such a strategy costs: this file, its statements and the registration
// at its end. Not for use: two names of one hash are one lock, and nothing keeps a name from being
// locked with another strategy at the same time.

#include <rowlock/error.hpp>
#include <string_view>

#include "strategy/catalogue.hpp"
#include "strategy/tokens.hpp"
#include "toys/toys.hpp"

namespace rowlock::test {
namespace {

using namespace strategies;
using backend::value;

// A name of these tables, as others have the same name.
#define ROWLOCK_TOY_HASH(name) "hashtextextended('rowlock_locks'::regclass::oid::text || ' ' || " name ", 0)"

// The column: whether the name has a row, by which list() knows it. The sub-select asks for the lock once.
constexpr std::string_view wait_and_take =
    "SELECT EXISTS (SELECT 1 FROM rowlock_locks AS l WHERE l.name = $1 AND l.strategy = "
    "'toy_advisory')::int::bigint "
    "FROM (SELECT pg_advisory_xact_lock(" ROWLOCK_TOY_HASH("$1::text") ") OFFSET 0) AS had";
constexpr std::string_view look_and_take =
    "SELECT EXISTS (SELECT 1 FROM rowlock_locks AS l WHERE l.name = $1 AND l.strategy = "
    "'toy_advisory')::int::bigint "
    "WHERE pg_try_advisory_xact_lock(" ROWLOCK_TOY_HASH("$1::text") ")";
constexpr std::string_view who_holds =
    "SELECT n.name, host(a.client_addr), a.pid::bigint, a.application_name "
    "FROM rowlock_locks AS n JOIN pg_locks AS l ON ((l.classid::bigint << 32) | l.objid::bigint) = " ROWLOCK_TOY_HASH("n.name") " "
    "JOIN pg_stat_activity AS a ON a.pid = l.pid "
    "WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1 AND n.strategy = 'toy_advisory' "
    "AND ($1::text = '' OR n.name = $1)";

class advisory final : public locking_strategy {
 public:
  explicit advisory(backend::statement_book const& book) : book_(book) {}

  outcome take(backend::connection& c, take_request const& r, std::optional<superseded> const&,
               boot_time_point deadline, boot_time_point& sent_at) const override {
    auto const& [only_look, stop, reply_timeout, another_session] = *r.wait;
    std::vector<value> const name{r.name};
    auto const statement =
        only_look ? rendered("toy_look_take", look_and_take) : rendered("toy_wait_take", wait_and_take);
    sent_at = boot_clock::now();
    try {
      auto const had = c.wait_for_row(statement, name, deadline, reply_timeout, stop).rows;
      auto const reply_by = boot_clock::now() + reply_timeout;
      if (had.empty()) {
        give_back(c, {}, {}, reply_by);
        return refusal(c, r.name, reply_by);
      }
      if (backend::as_int(had[0].at(0)) == 0)
        another_session()->execute(book_.at("lock_insert_free"),
                                   std::vector<value>{r.name, to_string(toy_advisory)}, reply_by);
    } catch (error const& e) {
      if (e.reason() != errc::row_locked) throw;
      return c.usable() ? refusal(c, r.name, boot_clock::now() + reply_timeout) : refused{};
    }
    if (!r.fencing) return granted{};
    auto const token = tokens(book_).draw(*another_session(), r.name, boot_clock::now() + reply_timeout);
    ping(c, boot_clock::now() + reply_timeout);
    return granted{token};
  }

  given_back give_back(backend::connection& c, name_and_term const&, std::chrono::milliseconds,
                       boot_time_point deadline) const override {
    c.script("ROLLBACK", deadline);
    return {.was_there = true};
  }

  void ping(backend::connection& c, boot_time_point deadline) const override {
    c.execute(book_.at("row_ping"), {}, deadline);
  }

  std::vector<held> holders(backend::connection& c, name_range const& wanted,
                            boot_time_point deadline) const override {
    auto const name = wanted.from == wanted.to ? wanted.from : std::string();
    std::vector<held> found;
    for (auto const& columns :
         c.execute(rendered("toy_who", who_holds), std::vector<value>{name}, deadline).rows) {
      auto& h = found.emplace_back();
      h.name = backend::as_text(columns.at(0));
      h.by.strategy = toy_advisory;
      if (!backend::is_null(columns.at(1))) h.by.owner.host = backend::as_text(columns.at(1));
      h.by.owner.pid = backend::as_int(columns.at(2));
      h.by.note = backend::as_text(columns.at(3));
    }
    return found;
  }

 private:
  backend::statement rendered(char const* name, std::string_view text) const {
    return {name, book_.tables().render(text)};
  }
  refused refusal(backend::connection& c, std::string const& name, boot_time_point deadline) const {
    refused why;
    if (auto found = holder(c, name, deadline)) why.row.emplace().holder = *std::move(found);
    return why;
  }

  backend::statement_book const& book_;
};

[[maybe_unused]] bool const advisory_registered = [] {
  add({toy_advisory,
       "toy_advisory",
       {.has_expiry = false,
        .revocable = false,
        .owns_session = true,
        .waits_in_server = true,
        .fenced_by_default = false},
       [](backend::statement_book const& book) -> std::unique_ptr<locking_strategy> {
         return std::make_unique<advisory>(book);
       },
       [](backend::dialect const& d) {
         return std::string_view(d.name == "postgresql" ? "" : "only PostgreSQL has these");
       }});
  return true;
}();

}  // namespace
}  // namespace rowlock::test
