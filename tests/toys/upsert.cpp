// A toy strategy without a session of its own: one statement takes the lock whether the name has a row or
// not. It is all that such a strategy costs: this file, its statements and the registration at its end. Not
// for use: nobody has looked at who can come in between but the contract's cases.

#include <rowlock/error.hpp>
#include <string_view>

#include "strategy/catalogue.hpp"
#include "strategy/row_strategy.hpp"
#include "toys/toys.hpp"

namespace rowlock::test {
namespace {

using namespace strategies;
using backend::value;

constexpr std::string_view take_on_postgresql = R"(
INSERT INTO rowlock_locks AS l (name, strategy, term, owner_host, owner_pid, owner_process, owner_thread, renewals, ttl, takeover,
  acquired_at, expires_at, hard_until, revoked, note, token, longest, longest_term)
SELECT $1, $2, $3, $4, $5::bigint, $6, $7::bigint, 0, $8::bigint, $9, clock_timestamp(),
  clock_timestamp() + least($8::bigint, $10::bigint) * interval '1 millisecond',
  clock_timestamp() + $10::bigint * interval '1 millisecond', false, $11,
  CASE WHEN $12::bigint = 0 THEN 0
    ELSE 1 + greatest(m.token_floor, (SELECT t.token FROM rowlock_tokens AS t WHERE t.name = $1)) END, $8::bigint, $3
FROM rowlock_meta AS m WHERE m.id = 1 AND $13::text IS NULL
  OR EXISTS (SELECT 1 FROM rowlock_locks AS o WHERE o.name = $1 AND o.term = $13)
ON CONFLICT (name, generation) DO UPDATE SET term = $3, owner_host = $4, owner_pid = $5::bigint, owner_process = $6, owner_thread = $7::bigint,
  renewals = 0, ttl = $8::bigint, takeover = $9, acquired_at = excluded.acquired_at, expires_at = excluded.expires_at,
  hard_until = excluded.hard_until, revoked = false, note = $11, longest = $8::bigint, longest_term = $3,
  token = CASE WHEN $12::bigint = 0 THEN l.token ELSE greatest(l.token + 1, excluded.token) END
WHERE l.strategy = $2 AND CASE WHEN $13::text IS NULL
  THEN l.term IS NULL OR (l.takeover = 'clock' AND l.expires_at <= clock_timestamp())
  ELSE l.term = $13 AND CASE WHEN $14::bigint IS NULL THEN NOT l.revoked ELSE l.renewals = $14::bigint END END
RETURNING l.token)";

constexpr std::string_view take_on_sqlite = R"(
INSERT INTO rowlock_locks (name, strategy, term, owner_host, owner_pid, owner_process, owner_thread, renewals, ttl, takeover,
  acquired_at, expires_at, hard_until, revoked, note, token, longest, longest_term)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, 0, ?8, ?9, n.now, n.now + min(?8, coalesce(?10, ?8)), n.now + ?10, 0, ?11,
  CASE WHEN ?12 = 0 THEN 0
    ELSE 1 + max(m.token_floor, coalesce((SELECT t.token FROM rowlock_tokens AS t WHERE t.name = ?1), 0)) END, ?8, ?3
FROM rowlock_meta AS m, (SELECT cast((julianday('now') - 2440587.5) * 86400000 AS INTEGER) AS now) AS n
WHERE m.id = 1 AND (?13 IS NULL OR EXISTS (SELECT 1 FROM rowlock_locks AS o WHERE o.name = ?1 AND o.term = ?13))
ON CONFLICT (name) DO UPDATE SET term = ?3, owner_host = ?4, owner_pid = ?5, owner_process = ?6, owner_thread = ?7,
  renewals = 0, ttl = ?8, takeover = ?9, acquired_at = excluded.acquired_at, expires_at = excluded.expires_at,
  hard_until = excluded.hard_until, revoked = 0, note = ?11, longest = ?8, longest_term = ?3,
  token = CASE WHEN ?12 = 0 THEN token ELSE max(token + 1, excluded.token) END
WHERE strategy = ?2 AND CASE WHEN ?13 IS NULL THEN term IS NULL OR (takeover = 'clock' AND expires_at <= excluded.acquired_at)
  ELSE term = ?13 AND CASE WHEN ?14 IS NULL THEN revoked = 0 ELSE renewals = ?14 END END
RETURNING token)";

class upsert final : public row_strategy {
 public:
  explicit upsert(backend::statement_book const& book) : row_strategy(book) {}

  outcome take(backend::connection& c, take_request const& r, std::optional<superseded> const& old,
               boot_time_point deadline, boot_time_point& sent_at) const override {
    auto parameters = granting_parameters(r, toy_upsert);
    parameters.emplace_back(std::int64_t{r.fencing});
    parameters.push_back(old ? value(old->term.value) : value(nullptr));
    parameters.push_back(old && old->renewals ? value(*old->renewals) : value(nullptr));
    sent_at = boot_clock::now();
    try {
      auto const took = c.execute(statement(), parameters, deadline).rows;
      if (!took.empty()) return granted{{r.fencing ? backend::as_int(took[0].at(0)) : 0}};
    } catch (error const& e) {
      if (e.reason() != errc::row_locked) throw;
    }
    auto row = rows_.read(c, r.name, deadline);
    if (row) require_strategy(*row, toy_upsert);
    return refused_by(std::move(row), old);
  }

 private:
  char const* release_statement() const noexcept override { return "lock_release"; }

  backend::statement statement() const {
    return {"toy_take",
            book_.tables().render(book_.sql().name == "sqlite" ? take_on_sqlite : take_on_postgresql)};
  }
};

[[maybe_unused]] bool const upsert_registered = [] {
  add({toy_upsert,
       "toy_upsert",
       {.has_expiry = true,
        .revocable = true,
        .owns_session = false,
        .waits_in_server = false,
        .fenced_by_default = true},
       [](backend::statement_book const& book) -> std::unique_ptr<locking_strategy> {
         return std::make_unique<upsert>(book);
       }});
  return true;
}();

}  // namespace
}  // namespace rowlock::test
