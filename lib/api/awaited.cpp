// The forms of the asynchronous calls that coroutines await. They stand here, and not in the headers, because
// a header that defines them has each program's compiler build async_result for each kind of result.
#include <rowlock/lock_manager.hpp>
#include <utility>

namespace rowlock {

async_result<acquisition> basic_mutex::async_acquire(std::reference_wrapper<executor const> where,
                                                     std::stop_token stop) {
  return {async({}), where, std::move(stop)};
}

async_result<acquisition> basic_mutex::async_acquire_for(std::chrono::nanoseconds timeout,
                                                         std::reference_wrapper<executor const> where,
                                                         std::stop_token stop) {
  return {async({.timeout = timeout}), where, std::move(stop)};
}

async_result<acquisition> basic_mutex::async_try_acquire(std::reference_wrapper<executor const> where) {
  return {async({.one_attempt = true}), where, {}};
}

async_result<bool> basic_mutex::async_wait_until_free_for(std::chrono::nanoseconds timeout,
                                                          std::reference_wrapper<executor const> where,
                                                          std::stop_token stop) {
  return {async_until_free(timeout), where, std::move(stop)};
}

async_result<acquisition> semaphore::async_acquire(std::int64_t units,
                                                   std::reference_wrapper<executor const> where,
                                                   std::stop_token stop) {
  return {async(units, {}), where, std::move(stop)};
}

async_result<acquisition> semaphore::async_acquire_for(std::chrono::nanoseconds timeout, std::int64_t units,
                                                       std::reference_wrapper<executor const> where,
                                                       std::stop_token stop) {
  return {async(units, {.timeout = timeout}), where, std::move(stop)};
}

async_result<acquisition> semaphore::async_try_acquire(std::int64_t units,
                                                       std::reference_wrapper<executor const> where) {
  return {async(units, {.one_attempt = true}), where, {}};
}

async_result<release_result> held_lock::async_release(std::reference_wrapper<executor const> where) {
  return {[this](executor there, std::unique_ptr<async_handler<release_result>> h, std::stop_token const&) {
            async_release_with(std::move(there), std::move(h));
          },
          where,
          {}};
}

async_result<bool> held_lock::async_extend(std::chrono::milliseconds duration,
                                           std::reference_wrapper<executor const> where) {
  return {extending(duration), where, {}};
}

async_result<bool> held_lock::async_set_note(std::string const& note,
                                             std::reference_wrapper<executor const> where) {
  return {noting(note), where, {}};
}

async_result<bool> held_lock::async_done(std::chrono::milliseconds keep_for, std::string const& result,
                                         std::reference_wrapper<executor const> where) {
  return {recording(keep_for, result), where, {}};
}

async_result<std::optional<held_lock>> held_lock::async_try_upgrade(
    std::reference_wrapper<executor const> where) {
  return {exchanging(true), where, {}};
}

async_result<std::optional<held_lock>> held_lock::async_downgrade(
    std::reference_wrapper<executor const> where) {
  return {exchanging(false), where, {}};
}

async_result<std::optional<loss_reason>> held_lock::async_lost(std::reference_wrapper<executor const> where,
                                                               std::stop_token stop) const {
  return {ending(), where, std::move(stop)};
}

async_result<release_result> held_locks::async_release(std::reference_wrapper<executor const> where) {
  return {[this](executor there, std::unique_ptr<async_handler<release_result>> h, std::stop_token const&) {
            async_release_with(std::move(there), std::move(h));
          },
          where,
          {}};
}

async_result<acquisition_of_all> lock_manager::async_acquire_all(
    std::reference_wrapper<std::vector<std::string> const> names,
    std::reference_wrapper<mutex_options const> options, std::reference_wrapper<executor const> where,
    std::stop_token stop) {
  return {async_all(names, options, {}), where, std::move(stop)};
}

async_result<acquisition_of_all> lock_manager::async_acquire_all_for(
    std::reference_wrapper<std::vector<std::string> const> names, std::chrono::nanoseconds timeout,
    std::reference_wrapper<mutex_options const> options, std::reference_wrapper<executor const> where,
    std::stop_token stop) {
  return {async_all(names, options, {.timeout = timeout}), where, std::move(stop)};
}

async_result<acquisition_of_all> lock_manager::async_try_acquire_all(
    std::reference_wrapper<std::vector<std::string> const> names,
    std::reference_wrapper<mutex_options const> options, std::reference_wrapper<executor const> where) {
  return {async_all(names, options, {.one_attempt = true}), where, {}};
}

async_result<bool> lock_manager::async_close(std::reference_wrapper<executor const> where) {
  return {[this](executor there, std::unique_ptr<async_handler<bool>> h, std::stop_token const&) {
            close_with(std::move(there), std::move(h));
          },
          where,
          {}};
}

}  // namespace rowlock
