#include "strategy/transaction.hpp"

#include <rowlock/error.hpp>

namespace rowlock::strategies {
namespace {

using namespace std::chrono_literals;

void roll_back(backend::connection& c) noexcept {
  if (!c.usable()) return;
  try {
    c.script("ROLLBACK", boot_clock::now() + 1s);
  } catch (std::exception const&) {
    c.close();  // its transaction must not go on
  }
}

}  // namespace

void in_transaction(backend::connection& c, backend::statement_book const& book, boot_time_point deadline,
                    std::function<bool()> const& body, bool durable) {
  bool begun = false;
  bool good = false;
  try {
    c.script(book.at("transaction_begin", durable).sql, deadline);
    begun = true;
    good = body();
  } catch (error const& e) {
    // If another program has locked the whole database, no transaction was begun, and ROLLBACK would fail.
    if (begun || e.reason() != errc::row_locked) roll_back(c);
    if (e.reason() != errc::in_doubt) throw;
    throw error(errc::unreachable, e.what(), e.statement(), e.sqlstate(), e.native_code());
  } catch (...) {
    roll_back(c);
    throw;
  }
  if (!good) return roll_back(c);
  try {
    c.script("COMMIT", deadline);
  } catch (...) {  // also std::bad_alloc: the session must not return with an open transaction
    roll_back(c);
    throw;
  }
}

std::vector<backend::result> run_together(backend::connection& c, backend::statement_book const& book,
                                          std::span<backend::step const> steps, boot_time_point deadline,
                                          bool durable) {
  if (book.at_once() || !book.returning()) return c.execute_at_once(steps, deadline);
  std::vector<backend::result> done;
  auto const each = [&] {
    done.clear();
    for (auto const& one : steps) done.push_back(c.execute(one.what, one.parameters, deadline));
    return true;
  };
  in_transaction(c, book, deadline, each, durable);
  return done;
}

}  // namespace rowlock::strategies
