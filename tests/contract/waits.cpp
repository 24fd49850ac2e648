#include "contract/waits.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <unistd.h>

#include <rowlock/rowlock.hpp>
#include <thread>

#include "support/eventually.hpp"
#include "support/innodb.hpp"
#include "support/threads.hpp"

namespace rowlock::test {
namespace {

std::int64_t number(backend::connection& c, std::string const& sql) {
  return backend::as_int(c.execute({"number " + sql, sql}, {}, boot_clock::now() + 30s).rows.at(0).at(0));
}

}  // namespace

void be_patient(fixture& f, backend::connection& waiter) {
  auto const engine = dialect_of(f);
  if (engine == dialect::sqlite) return;
  waiter.script(engine == dialect::postgresql ? "SET lock_timeout = '20s'"
                                              : "SET SESSION innodb_lock_wait_timeout = 20",
                boot_clock::now() + 30s);
}

// PostgreSQL: by the schema, which is the case's own, for behind a pooler a session has no number.
wait_view::wait_view(fixture& f, backend::connection& waiter)
    : engine_(dialect_of(f)),
      session_(source_from_url(f.url()).implementation()->connect(boot_clock::now() + 30s)),
      look_(fmt::format(
          "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%{}%'",
          f.options.schema)),
      waiter_(engine_ == dialect::mysql ? number(waiter, "SELECT connection_id()") : 0) {
  be_patient(f, waiter);
}

bool wait_view::shows_it(std::atomic<int> const& thread) {
  if (engine_ == dialect::sqlite) return comes_to_rest(thread);
  if (engine_ == dialect::mysql) return comes_to_wait(*session_, waiter_);
  return eventually([&] { return number(*session_, look_) > 0; });
}

void while_it_waits(fixture& f, backend::connection& session, std::function<void()> const& call,
                    std::function<void()> const& meanwhile) {
  wait_view view(f, session);
  std::atomic<int> thread{0};
  std::jthread const waiter([&] {
    thread = ::gettid();
    call();
  });
  CHECK(view.shows_it(thread));
  meanwhile();
}

}  // namespace rowlock::test
