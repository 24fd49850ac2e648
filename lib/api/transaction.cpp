#include <rowlock/transaction.hpp>
#include <utility>
#include <vector>

#include "guard/guarded_transaction.hpp"

namespace rowlock {

basic_transaction::basic_transaction(lock_manager& m, std::unique_ptr<backend::caller_connection> c)
    : guarded_(std::make_unique<guard::guarded_transaction>(m.manager_, std::move(c))) {}

basic_transaction::basic_transaction(basic_transaction&&) noexcept = default;
basic_transaction& basic_transaction::operator=(basic_transaction&&) noexcept = default;
basic_transaction::~basic_transaction() = default;

std::vector<guard::required_lock> basic_transaction::known(std::span<held_lock const* const> locks) {
  std::vector<guard::required_lock> all;
  all.reserve(locks.size());
  for (auto const* one : locks) all.push_back({one->manager_, one->hold_, one->live_});
  return all;
}

void basic_transaction::require(held_lock const& lock) {
  held_lock const* const one[] = {&lock};
  require(one);
}

void basic_transaction::require(std::span<held_lock const* const> locks) { guarded_->require(known(locks)); }

void basic_transaction::admit(std::string const& name, fencing_token token) { guarded_->admit(name, token); }

void basic_transaction::done(held_lock const& lock, std::chrono::milliseconds keep_for,
                             std::string const& result) {
  held_lock const* const one[] = {&lock};
  guarded_->done(known(one).front(), keep_for, result);
}

void basic_transaction::execute_commit(held_lock const& lock) {
  held_lock const* const one[] = {&lock};
  execute_commit(one);
}

void basic_transaction::execute_commit(std::span<held_lock const* const> locks) {
  guarded_->execute_commit(known(locks));
}

void basic_transaction::lock(std::span<std::string_view const> names) {
  if (!guarded_->lock(names, {.in_server = true, .until = {}}))
    throw error(errc::row_locked, "a row lock was refused without a reason: it is not held");
}

bool basic_transaction::try_lock_for(std::span<std::string_view const> names,
                                     std::chrono::nanoseconds timeout) {
  auto const now = boot_clock::now();
  auto const until = timeout > boot_time_point::max() - now ? boot_time_point::max() : now + timeout;
  return guarded_->lock(names, {.in_server = false, .until = until});
}

std::optional<detached_lock> basic_transaction::insert(std::string const& name, std::chrono::milliseconds ttl,
                                                       std::string const& note) {
  return guarded_->insert(name, ttl, note);
}

}  // namespace rowlock
