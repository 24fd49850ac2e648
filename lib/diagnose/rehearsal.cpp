#include "diagnose/rehearsal.hpp"

#include <chrono>

#include "backend/statement_book.hpp"

namespace rowlock::diagnose {
namespace {

constexpr auto savepoint = "SAVEPOINT rowlock_doctor";
constexpr auto release = "RELEASE SAVEPOINT rowlock_doctor";
constexpr auto undo = "ROLLBACK TO SAVEPOINT rowlock_doctor";

}  // namespace

rehearsal::rehearsal(backend::connection& within, backend::statement_book const& book,
                     boot_time_point deadline)
    : within_(within) {
  // No tokens are reserved for what is rolled back.
  within_.script(backend::behind_marks(book.at("transaction_begin").sql), deadline);
}

rehearsal::~rehearsal() {
  if (!within_.usable()) return;
  try {
    within_.script("ROLLBACK", boot_clock::now() + std::chrono::seconds(1));
  } catch (std::exception const&) {
    within_.close();
  }
}

backend::result rehearsal::execute(backend::statement const& s, std::span<backend::value const> parameters,
                                   boot_time_point deadline) try {
  return within_.execute(s, parameters, deadline);
} catch (error const& e) {
  if (!refused_) refused_ = e;
  throw;
}

std::vector<backend::result> rehearsal::execute_at_once(std::span<backend::step const> steps,
                                                        boot_time_point deadline) {
  std::vector<backend::result> done;
  for (auto const& one : steps) done.push_back(execute(one.what, one.parameters, deadline));
  return done;
}

void rehearsal::script(std::string_view sql, boot_time_point deadline) {
  if (sql == "COMMIT") return within_.script(release, deadline);
  within_.script(sql == "ROLLBACK" ? undo : savepoint, deadline);
}

// No other session has the row, so there is no wait.
backend::result rehearsal::wait_for_row(backend::statement const& s,
                                        std::span<backend::value const> parameters, boot_time_point deadline,
                                        std::chrono::nanoseconds /*reply_timeout*/,
                                        std::stop_token /*stop*/) {
  within_.script(savepoint, deadline);
  return execute(s, parameters, deadline);
}

}  // namespace rowlock::diagnose
