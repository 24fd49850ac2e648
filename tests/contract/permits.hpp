#pragma once
// What cases of shared_mutex and semaphore have in common.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/random_id.hpp"
#include "contract/reaping.hpp"
#include "sessions/retry_deadlocks.hpp"
#include "strategy/permits.hpp"

namespace rowlock::test {

/// Of what `call` throws; empty if it does not.
template <class Call>
std::optional<errc> reason(Call const& call) {
  try {
    call();
    return std::nullopt;
  } catch (error const& e) {
    return e.reason();
  }
}

/// What another program holds of a name, or wants.
class other_program {
 public:
  explicit other_program(fixture& f) : manager_(f.source, f.options) {}
  /// As a program that is not this one: it is never the same owner.
  shared_mutex shared(std::string const& name = "x") {
    return manager_.make_shared_mutex(name, {.owner = each_acquire{}});
  }
  bool reads(std::string const& name = "x") { return keep(shared(name).try_acquire_shared()); }
  bool writes(std::string const& name = "x") { return keep(shared(name).try_acquire()); }
  bool has(std::int64_t units, std::optional<std::int64_t> limit, std::string const& name = "x") {
    return keep(manager_.make_semaphore(name, limit).try_acquire(units));
  }
  void give_back() { locks_.clear(); }

 private:
  bool keep(acquisition a) {
    if (!a) return false;
    locks_.push_back(*std::move(a));
    return true;
  }
  lock_manager manager_;
  std::vector<held_lock> locks_;
};

/// A program elsewhere that takes permits of a name statement by statement, on one session, and renews
/// nothing by itself.
class permit_taker {
 public:
  explicit permit_taker(fixture& f, strategy how = strategy::shared, std::string name = "x")
      : name_(std::move(name)),
        book_(f.source.implementation()->sql(), f.tables()),
        taking_(book_, how),
        rows_(book_, strategies::term_rows::table::permits),
        session_(f.connect()) {}

  static strategies::wanted_permit reader() { return of(1, strategies::all_units); }
  static strategies::wanted_permit writer() { return of(strategies::all_units, strategies::all_units); }
  static strategies::wanted_permit of(std::int64_t units, std::int64_t limit) {
    return {.units = units, .limit = limit, .intent = base::random_id()};
  }

  /// One attempt, and another one if it was the victim of a deadlock, as managers do.
  bool take(strategies::wanted_permit const& what) {
    strategies::take_request r{name_, {}, {"elsewhere", 1, "taker", 1}, 30s, 0ms, takeover::clock, true, ""};
    r.permit = what;
    boot_time_point sent_at;
    sessions::events const nobody{{}};
    auto const came = sessions::retry_deadlocks(nobody, name_, soon(), [&] {
      r.term = {base::random_id()};
      return taking_.take(*session_, r, {}, soon(), sent_at);
    });
    if (auto const* const no = std::get_if<strategies::refused>(&came)) {
      met_locked_ = no->by_nobody;
      return false;
    }
    term_ = r.term;
    return true;
  }
  /// Whether the last attempt was refused because a row was locked for too long, not because of who has what.
  bool met_locked() const { return met_locked_; }
  bool release() { return taking_.give_back(*session_, {name_, term_}, 0ms, soon()).was_there; }
  bool renew() {
    strategies::name_and_term const mine{name_, term_};
    return !rows_.renew(*session_, std::span(&mine, 1), soon()).empty();
  }
  bool revoke(revoke_mode mode) { return rows_.revoke(*session_, {name_, {}}, mode, soon()); }
  std::optional<strategies::term_state> state() { return rows_.check(*session_, {name_, term_}, soon()); }
  bool is_there() { return state().has_value(); }
  term_id const& term() const { return term_; }
  backend::connection& session() { return *session_; }

 private:
  boot_time_point soon() const { return boot_clock::now() + 30s; }

  std::string name_;
  backend::statement_book book_;
  strategies::permits taking_;
  strategies::term_rows rows_;
  std::unique_ptr<backend::connection> session_;
  term_id term_;
  bool met_locked_ = false;
};

/// SQL that makes a permit of "x" which somebody else has.
inline std::string permit_of_somebody(fixture& f, std::int64_t units, std::int64_t limit, strategy how,
                                      std::string const& term = "theirs") {
  return "INSERT INTO rowlock_permits (name, strategy, term, token, ttl, acquired_at, expires_at, units, "
         "told) "
         "VALUES ('x', '" +
         std::string(to_string(how)) + "', '" + term + "', 1, 30000, " + in_ms(f, 0) + ", " +
         in_ms(f, 30'000) + ", " + std::to_string(units) + ", " + std::to_string(limit) + ")";
}

/// Makes "x" a name of that kind that nobody holds.
inline void make_name(fixture& f, strategy how = strategy::shared) {
  permit_taker first(f, how);
  REQUIRE(first.take(permit_taker::of(1, strategies::all_units)));
  REQUIRE(first.release());
}

/// As if all permits of "x" had ended a second ago.
inline void expire_permits(fixture& f, std::string const& where = "1 = 1") {
  f.sql("UPDATE rowlock_permits SET expires_at = " + in_ms(f, -1000) + " WHERE " + where);
}

inline std::int64_t permits_there(fixture& f) { return number(f, "SELECT count(*) FROM rowlock_permits"); }

}  // namespace rowlock::test
