// Many processes that do the same pieces of work once, and are killed at random. In short: 6 processes, 8
// keys; ROWLOCK_ONCE_LOAD=20x200 makes it 20 processes and 200 keys.
#include <fmt/format.h>

#include <cstdio>
#include <random>
#include <thread>

#include "guard/handles.hpp"
#include "support/child_process.hpp"

using namespace rowlock;
using namespace rowlock::test;

namespace {

struct load_size {
  int processes = 6;
  int keys = 8;
};

load_size size_of_load() {
  load_size s;
  if (char const* const wanted = std::getenv("ROWLOCK_ONCE_LOAD"))
    if (std::sscanf(wanted, "%dx%d", &s.processes, &s.keys) != 2) FAIL("ROWLOCK_ONCE_LOAD: 20x200");
  return s;
}

/// Runs them until all keys are done. @return how many were killed
template <class On>
int run_and_kill(On& f, lock_manager& m, load_size const& size, std::string const& how) {
  auto const start = [&] {
    return std::make_unique<child_process>(
        std::vector<std::string>{ROWLOCK_ONCE_WORKER, std::to_string(static_cast<int>(On::how)), f.url(),
                                 f.options.schema, how, std::to_string(size.keys), "1000"});
  };
  std::mt19937 random{std::random_device{}()};
  std::vector<std::unique_ptr<child_process>> all;
  for (int i = 0; i < size.processes; ++i) all.push_back(start());
  int killed = 0;
  auto const give_up = boot_clock::now() + 60s + 3s * size.keys;
  auto const is_done = [&] {
    auto const listed = m.list({.done = true});
    auto const done =
        std::count_if(listed.begin(), listed.end(), [](auto const& l) { return l.holder.done; });
    return done == size.keys;
  };
  // Half of them in the middle of a run, as far as that can be hit; the others whatever they do.
  auto const victim = [&]() -> std::unique_ptr<child_process>& {
    auto& any = all[std::uniform_int_distribution<std::size_t>(0, all.size() - 1)(random)];
    if (std::bernoulli_distribution(0.5)(random)) return any;
    for (auto const& running : m.list())
      for (auto& one : all)
        if (running.held && one->pid() == running.holder.owner.pid) return one;
    return any;
  };
  while (!is_done() && boot_clock::now() < give_up) {
    std::this_thread::sleep_for(std::chrono::milliseconds(std::uniform_int_distribution(10, 150)(random)));
    auto& one = victim();
    one->kill();
    ++killed;
    one = start();
  }
  for (auto const& one : all) CHECK(one->finish() == 0);
  return killed;
}

template <class On>
struct counts {
  On& f;
  program& p;
  int of(std::string const& select) {
    return std::stoi(*p.value("SELECT count(*) FROM (" + select + ") AS counted"));
  }
  std::string where(std::string const& key, std::string const& what) {
    return "SELECT * FROM " + f.table("effects") + " WHERE k = '" + key + "' AND what = '" + what + "'";
  }
};

}  // namespace

TEST_CASE_TEMPLATE("once: processes that are killed: with tx.done the data is written exactly once", On,
                   libpq_on_postgresql, connector_on_mariadb, connector_on_mysql, sqlite3_on_sqlite) {
  On f;
  f.sql("CREATE TABLE " + f.table("effects") + " (k VARCHAR(64), run VARCHAR(64), what VARCHAR(8))");
  auto const m = f.manager();
  auto const size = size_of_load();
  auto const killed = run_and_kill(f, *m, size, "transaction");
  auto const p = f.open();
  counts<On> count{f, *p};
  int written = 0;
  for (auto const& listed : m->list({.done = true})) {
    CAPTURE(listed.name);
    CHECK(listed.holder.done);
    CHECK(count.of(count.where(listed.name, "data")) == 1);
    CHECK(count.of(count.where(listed.name, "data") + " AND run = '" + listed.holder.note + "'") == 1);
    ++written;
  }
  CHECK(written == size.keys);
  fmt::print("once, {}, with tx.done: {} processes, {} killed, {} keys, each written once\n", On::backend,
             size.processes, killed, written);
}

TEST_CASE_TEMPLATE("once: processes that are killed: without tx.done no key stays undone, and no record lies",
                   On, libpq_on_postgresql, connector_on_mariadb, connector_on_mysql, sqlite3_on_sqlite) {
  On f;
  f.sql("CREATE TABLE " + f.table("effects") + " (k VARCHAR(64), run VARCHAR(64), what VARCHAR(8))");
  auto const m = f.manager();
  auto const size = size_of_load();
  auto const killed = run_and_kill(f, *m, size, "plain");
  auto const p = f.open();
  counts<On> count{f, *p};
  int recorded = 0;
  int twice = 0;
  for (auto const& listed : m->list({.done = true})) {
    CAPTURE(listed.name);
    CHECK(listed.holder.done);
    // The run that was recorded came to its end.
    CHECK(count.of(count.where(listed.name, "end") + " AND run = '" + listed.holder.note + "'") == 1);
    if (count.of(count.where(listed.name, "end")) > 1) ++twice;
    ++recorded;
  }
  CHECK(recorded == size.keys);
  auto const begun = count.of("SELECT * FROM " + f.table("effects") + " WHERE what = 'begin'");
  fmt::print("once, {}, without tx.done: {} processes, {} killed, {} keys, {} runs, {} keys done twice\n",
             On::backend, size.processes, killed, recorded, begun, twice);
}
