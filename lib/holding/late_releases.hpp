#pragma once
// What could not be given back at once, in the order in which it came: which of it is to be tried, and when.

#include <chrono>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "strategy/term_rows.hpp"

namespace rowlock::holding {

/// Between two tries to give something back, at first: the pause doubles with each.
inline constexpr std::chrono::milliseconds first_late_pause{200};

/// Something to be given back as soon as the database lets us.
struct late_release {
  strategies::name_and_term which;
  rowlock::strategy strategy;
  std::chrono::milliseconds at_least{0};
  boot_time_point until;               ///< dropped then: what is left in the row is in nobody's way any more
  boot_time_point may_come_until{};    ///< of a doubtful take: that it was not there proves nothing before
  boot_time_point next{};              ///< when it is to be tried
  std::chrono::milliseconds pause{0};  ///< after the last try, which failed; 0: it was not tried yet

  bool doubtful() const noexcept { return may_come_until != boot_time_point{}; }
  /// It was tried in vain: the next pause is twice as long as the last one, within bounds.
  void lengthen_pause() noexcept;
};

/// Not thread-safe: under its owner's mutex.
class late_releases {
 public:
  /// A map, because its nodes are taken out and put back without memory.
  using numbered = std::map<std::uint64_t, late_release>;
  using taken = numbered::node_type;  ///< empty if there is none

  /// Not if it is one more doubtful take of a name that has very many already: that ends by its expiry.
  void add(late_release);
  bool empty() const noexcept { return all_.empty(); }

  /// Numbers of those that are to be tried now, those that were not tried yet before those that have failed.
  std::vector<std::uint64_t> due(boot_time_point now) const;
  /// When there is one to be tried.
  boot_time_point next() const;
  /// Only while it is tried, and so that none gets lost: whatever is thrown, it is put back.
  taken take(std::uint64_t number) { return all_.extract(number); }
  void put_back(taken one) { all_.insert(std::move(one)); }

  /// The database did not answer: none is due before `moment`.
  void none_before(boot_time_point moment) noexcept { not_before_ = moment; }
  /// All that are there are due now.
  void hurry() noexcept;

  numbered take_all() noexcept { return std::exchange(all_, {}); }
  void put_back(numbered& those) { all_.merge(those); }

 private:
  template <class Look>
  void each_to_be_tried(Look const&) const;

  numbered all_;
  std::uint64_t number_ = 0;    ///< of the last one
  boot_time_point not_before_;  ///< none is tried before
};

}  // namespace rowlock::holding
