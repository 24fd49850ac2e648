#pragma once
// The result of an asynchronous call, on its way to the program: made with the call, so that the end of the
// call needs no memory. Its owner is the call, then the executor.

#include <exception>
#include <memory>
#include <rowlock/executor.hpp>
#include <stop_token>
#include <vector>

#include "manager/continuation.hpp"
#include "manager/lock_call.hpp"

namespace rowlock::managing {

class manager;

/// What the program has asked for.
struct order {
  std::vector<lock_spec> specs;  ///< in the order of their names
  wait_policy how;
  std::stop_token stop;
};

/// Gets the result once, where the executor runs it.
class receiver {
 public:
  receiver() = default;
  receiver(receiver const&) = delete;
  receiver& operator=(receiver const&) = delete;
  virtual ~receiver() = default;
  virtual void receive(std::exception_ptr, std::shared_ptr<manager>, taken) = 0;
};

class delivery final : public continuation {
 public:
  delivery(std::shared_ptr<manager> of, executor where, std::unique_ptr<receiver> whom,
           std::shared_ptr<order const> what) noexcept;

  std::shared_ptr<order const> const& what() const noexcept { return what_; }
  /// What the program is to get.
  void bring(std::exception_ptr, taken) noexcept;

 private:
  /// Asks here, just before the program sees the lock, whether it comes too late: a busy executor can have
  /// let its trust end. Then the call begins again, if the program would still wait.
  void go_on(std::unique_ptr<work>& itself) override;
  void give_up() noexcept override;
  bool is_late() const noexcept;
  /// @return whether the call has begun again, and owns the delivery
  bool begin_again(std::unique_ptr<work>& itself) noexcept;

  std::unique_ptr<receiver> whom_;
  std::shared_ptr<order const> const what_;
  std::exception_ptr failed_;
  taken result_;
};

}  // namespace rowlock::managing
