#pragma once
// One call that takes a lock from a majority. It asks all members at once or, with competitors, one member
// first. lib/doc/quorum.md

#include <chrono>
#include <memory>
#include <optional>
#include <rowlock/quorum.hpp>
#include <stop_token>
#include <string>

#include "quorum/quorum_engine.hpp"

namespace rowlock::voting {

struct quorum_wait_policy {
  bool one_attempt = false;
  std::optional<std::chrono::steady_clock::time_point> deadline{};  ///< empty: for ever
};

struct quorum_result {
  std::shared_ptr<quorum_hold> won{};  ///< null: see why
  acquire_status why = acquire_status::busy;
  std::optional<holder_info> holder{};
};

/// For one call, on one thread.
class quorum_call : private asks_others {
 public:
  quorum_call(quorum_engine&, std::string const& name, mutex_options const&, quorum_wait_policy const&,
              std::stop_token);

  /// @throws error
  quorum_result run();

 private:
  fencing_token asks() override;
  void refused() override;

  enum class next { won, again, refused, failed };

  next attempt(quorum_view const&);
  next try_all_at_once(quorum_view const&, std::size_t here);
  next try_one_first(quorum_view const&);
  void begin_anew(quorum_view const&);
  /// The same, and marks the first member as asked.
  void begin_anew_at_first();
  ballot ask(quorum_view const&, std::size_t member, question);
  /// Asks the members in their order until one answers. @return empty if none granted
  std::optional<std::size_t> ask_first(quorum_view const&);
  void ask_others(quorum_view const&, std::size_t first, fencing_token);
  /// Waits for the answers, and makes a majority know the highest token.
  next settle(quorum_view const&, std::size_t first);
  next judge(quorum_view const&);
  void keep();
  void give_back() noexcept;
  void remember(std::size_t member, ballot const&, std::string const& epoch_id);
  void pause();
  bool over() const noexcept;

  quorum_engine& engine_;
  std::string const& name_;
  mutex_options const& options_;
  quorum_wait_policy const wait_policy_;
  std::stop_token const stop_;
  std::shared_ptr<quorum_hold> hold_;
  /// For asks() and refused(): the member in whose queue the call waits, and whether the others are asked.
  quorum_view const* view_ = nullptr;
  std::size_t first_ = 0;
  bool others_asked_ = false;

  int in_vain_ = 0;  ///< attempts that settle() lost, and failed ones
  boot_clock::duration round_trip_{0};
  std::optional<holder_info> holder_;
  acquire_status why_ = acquire_status::busy;
  std::optional<error> failure_;
  bool other_epoch_ = false;
};

}  // namespace rowlock::voting
