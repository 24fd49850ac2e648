#include "contract/stranger.hpp"

#include <utility>

#include "base/random_id.hpp"
#include "strategy/permits.hpp"
#include "strategy/quarantine.hpp"

namespace rowlock::test {
namespace {

/// As managers do: who lost a deadlock (InnoDB has them between any INSERT and DELETE of one key) has done
/// nothing.
template <class Statement>
auto despite_deadlocks(Statement const& statement, bool busy_too = false) {
  for (int tries = 1;; ++tries) {
    try {
      return statement();
    } catch (error const& e) {
      bool const again = e.reason() == errc::conflict || (busy_too && e.reason() == errc::row_locked);
      if (!again || tries == 50) throw;
    }
  }
}

}  // namespace

stranger::stranger(fixture& f, std::string process)
    : source_(f.source),
      how_(f.options.strategy),
      writes_lock_database_(f.source.implementation()->sql().writes_lock_database),
      book_(f.source.implementation()->sql(), f.tables()),
      taking_(book_),
      rows_(book_, traits(how_).counted ? strategies::term_rows::table::permits
                                        : strategies::term_rows::table::locks),
      session_(f.connect()),
      self_{"elsewhere", 1, std::move(process), 1} {}

bool stranger::take_for_session(std::string const& name) {
  strategies::server_wait const look{
      true, {}, 10s, [&] { return source_.implementation()->connect(soon()); }};
  strategies::take_request r{name, {base::random_id()}, self_, 30s, 0ms, takeover::clock, false, ""};
  r.wait = &look;
  boot_time_point sent_at;
  return std::holds_alternative<strategies::granted>(
      taking_.of(how_).take(*session_, r, {}, soon(), sent_at));
}

bool stranger::take_with(std::string const& name, std::chrono::milliseconds ttl, takeover mode,
                         std::optional<strategies::superseded> const& old) {
  // Many at once on one SQLite file, on a slow machine: one may find it busy for longer than a session waits.
  return despite_deadlocks(
      [&] {
        strategies::take_request r{name, {base::random_id()}, self_, ttl, 0ms, mode, true, ""};
        r.permit = {.units = strategies::all_units, .limit = strategies::all_units};
        boot_time_point sent_at;
        if (!std::holds_alternative<strategies::granted>(
                taking_.of(how_).take(*session_, r, old, soon(), sent_at)))
          return false;
        terms_[name] = r.term;
        return true;
      },
      writes_lock_database_);
}

bool stranger::take(std::string const& name, std::chrono::milliseconds ttl, takeover mode) {
  return traits(how_).owns_session ? take_for_session(name) : take_with(name, ttl, mode, {});
}

bool stranger::take_over(std::string const& name) {
  auto const row = read(name);
  auto const incarnation =
      strategies::incarnation_of(*session_, book_, {name, row->term}, row->renewals, soon());
  if (!incarnation) return false;
  return take_with(name, 30s, takeover::clock,
                   strategies::superseded{row->term, row->renewals, *incarnation});
}

bool stranger::claim(std::string const& name, strategies::superseded const& old) {
  return take_with(name, 30s, takeover::clock, old);
}

bool stranger::renew(std::string const& name) { return renew(name, terms_.at(name)); }

bool stranger::renew(std::string const& name, term_id const& term) {
  std::vector<strategies::name_and_term> const one{{name, term}};
  return !rows_.renew(*session_, one, soon()).empty();
}

bool stranger::set_note(std::string const& name, std::string const& note) {
  return rows_.set_note(*session_, {name, terms_.at(name)}, note, soon());
}

bool stranger::has_still(std::string const& name) {
  auto const row = read(name);
  return row && row->term == terms_.at(name);
}

bool stranger::release(std::string const& name) {
  if (traits(how_).owns_session) return taking_.of(how_).give_back(*session_, {}, 0ms, soon()).was_there;
  return despite_deadlocks(
      [&] {
        return taking_.of(how_).give_back(*session_, {name, terms_.at(name)}, 0ms, soon()).was_there;
      },
      writes_lock_database_);
}

std::optional<strategies::term_row> stranger::read(std::string const& name) {
  return rows_.read(*session_, name, soon());
}

bool stranger::sees_free(std::string const& name) {
  auto const row = read(name);
  return !row || row->term.empty();
}

}  // namespace rowlock::test
