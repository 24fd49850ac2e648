// What a cycle on PostgreSQL costs beside a transaction with an old snapshot, for which the server keeps each
// dead version of a lock's rows (lib/doc/postgresql.md). Starts its server itself, unflushed, with
// autovacuum.
//
//   rowlock_old_snapshot [KIND [CYCLES]]
//
// KIND: lease, functions (the same by SQL functions), semaphore (of 5), shared (readers) or names (a lease of
// 1,000 names in turn). Says the median of the first thousand cycles, of the last thousand, and their ratio.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <rowlock/rowlock.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "backend/backend.hpp"
#include "support/database_server.hpp"

namespace {

using namespace std::chrono_literals;
using rowlock::boot_clock;
using rowlock::test::database_server;
using rowlock::test::server_kind;
namespace backend = rowlock::backend;

constexpr std::size_t counted = 1000;
constexpr int many_names = 1000;
constexpr int default_cycles = 200'000;

using cycle = std::function<void(int)>;

std::unique_ptr<backend::connection> session_to(database_server const& s) {
  return rowlock::source_from_url(s.address()).implementation()->connect(boot_clock::now() + 30s);
}

void expect(bool fine, char const* what) {
  if (!fine) throw std::runtime_error(what);
}

cycle by_functions(backend::connection& c) {
  return [&c](int) {
    auto const deadline = boot_clock::now() + 30s;
    auto const taken = c.execute(
        {"take", "SELECT term FROM public.rowlock_try_acquire('hot', interval '1 minute')"}, {}, deadline);
    expect(taken.rows.size() == 1, "the lock was not granted");
    std::vector<backend::value> const term{taken.rows[0][0]};
    c.execute({"release", "SELECT public.rowlock_release('hot', $1)::int::bigint"}, term, deadline);
  };
}

void give_back(rowlock::acquisition got) {
  expect(got && got->release() == rowlock::release_result::released, "a lock was lost");
}

cycle cycle_of(std::string const& kind, rowlock::lock_manager& m, backend::connection& c) {
  if (kind == "functions") return by_functions(c);
  if (kind == "semaphore") {
    auto const x = std::make_shared<rowlock::semaphore>(m.make_semaphore("hot", 5));
    return [x](int) { give_back(x->acquire()); };
  }
  if (kind == "shared") {
    auto const x = std::make_shared<rowlock::shared_mutex>(m.make_shared_mutex("hot"));
    return [x](int) { give_back(x->acquire_shared()); };
  }
  if (kind != "lease" && kind != "names")
    throw std::runtime_error("KIND is lease, functions, semaphore, shared or names");
  auto const all = std::make_shared<std::vector<rowlock::mutex>>();
  for (int i = 0; i < (kind == "names" ? many_names : 1); ++i)
    all->push_back(m.make_mutex(fmt::format("n{}", i)));
  return [all](int i) { give_back(all->at(static_cast<std::size_t>(i) % all->size()).acquire()); };
}

double median_us(std::vector<double> times) {
  std::ranges::nth_element(times, times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2));
  return times[times.size() / 2];
}

int run(std::string const& kind, int cycles) {
  database_server const server(server_kind::postgresql, {.settings = {"autovacuum = on"}});
  auto const source = rowlock::source_from_url(server.address());
  rowlock::migrator(source).up();
  rowlock::lock_manager manager(source);
  auto const client = session_to(server);
  auto const one = cycle_of(kind, manager, *client);
  for (int i = 0; i < many_names; ++i) one(i);  // the names are there before the snapshot
  auto const old = session_to(server);
  old->script("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM public.rowlock_locks",
              boot_clock::now() + 30s);

  std::vector<double> first;
  std::vector<double> last;
  for (int i = 0; i < cycles; ++i) {
    auto const before = std::chrono::steady_clock::now();
    one(i);
    std::chrono::duration<double, std::micro> const took = std::chrono::steady_clock::now() - before;
    if (first.size() < counted) first.push_back(took.count());
    if (i >= cycles - static_cast<int>(counted)) last.push_back(took.count());
  }
  fmt::print("{}: {} cycles beside an old snapshot: {:.0f} us first, {:.0f} us last: {:.2f}\n", kind, cycles,
             median_us(first), median_us(last), median_us(last) / median_us(first));
  return EXIT_SUCCESS;
}

}  // namespace

int main(int argc, char** argv) try {
  int const cycles = argc > 2 ? std::atoi(argv[2]) : default_cycles;
  if (argc > 3 || cycles < static_cast<int>(counted)) {
    fmt::print(stderr, "usage: rowlock_old_snapshot [KIND [CYCLES]], at least {} cycles\n", counted);
    return 64;
  }
  return run(argc > 1 ? argv[1] : "lease", cycles);
} catch (std::exception const& e) {
  fmt::print(stderr, "{}\n", e.what());
  return EXIT_FAILURE;
}
