#pragma once
// Releases that failed, in the order of their arrival: which of them to repeat, and when.

#include <chrono>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "strategy/term_rows.hpp"

namespace rowlock::holding {

/// The first pause between two tries. Each further one is twice as long.
inline constexpr std::chrono::milliseconds first_late_pause{200};

struct late_release {
  strategies::name_and_term which;
  rowlock::strategy strategy;
  std::chrono::milliseconds at_least{0};
  boot_time_point until;               ///< dropped then: the row no longer keeps the name from other owners
  boot_time_point may_come_until{};    ///< of a take in doubt: a missing term proves nothing before
  boot_time_point next{};              ///< the next try
  std::chrono::milliseconds pause{0};  ///< after the last try; 0: not tried yet

  bool doubtful() const noexcept { return may_come_until != boot_time_point{}; }
  /// After a try that failed. Doubles the pause, within bounds.
  void lengthen_pause() noexcept;
};

/// Not thread-safe: its owner's mutex guards it.
class late_releases {
 public:
  /// A map, because moving its nodes needs no memory.
  using numbered = std::map<std::uint64_t, late_release>;
  using taken = numbered::node_type;  ///< empty if another thread has it

  /// Drops a take in doubt if its name has very many already: then the term ends by its expiry.
  void add(late_release);
  bool empty() const noexcept { return all_.empty(); }

  /// The releases to try now, untried ones first.
  std::vector<std::uint64_t> due(boot_time_point now) const;
  /// When the next one is due.
  boot_time_point next() const;
  /// For one try. The caller puts it back whatever is thrown.
  taken take(std::uint64_t number) { return all_.extract(number); }
  void put_back(taken one) { all_.insert(std::move(one)); }

  /// The database did not answer: no release is due before `moment`.
  void none_before(boot_time_point moment) noexcept { not_before_ = moment; }
  /// Makes all releases due now.
  void hurry() noexcept;

  numbered take_all() noexcept { return std::exchange(all_, {}); }
  void put_back(numbered& those) { all_.merge(those); }

 private:
  template <class Look>
  void each_to_be_tried(Look const&) const;

  numbered all_;
  std::uint64_t number_ = 0;  ///< of the last one
  boot_time_point not_before_;
};

}  // namespace rowlock::holding
