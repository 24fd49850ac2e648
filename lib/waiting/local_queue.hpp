#pragma once
// What this process holds and who of its threads waits for it, over all managers. One thread per database and
// name talks to the database; the others stand in line behind it, in order, and cost no round trip.

#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <rowlock/types.hpp>
#include <stop_token>
#include <string>
#include <unordered_map>
#include <variant>

namespace rowlock::waiting {

/// What stands in a place of the queue once its name was taken: a lock that is held. Thread-safe.
class occupant {
 public:
  virtual ~occupant() = default;
  virtual holder_info as_holder() const = 0;
  /// Whether its owner may have one more handle of it.
  virtual bool has_handles() const noexcept = 0;

 protected:
  occupant() = default;
  occupant(occupant const&) = default;
  occupant& operator=(occupant const&) = default;
};

class local_queue {
 public:
  struct key {
    std::size_t database = 0;  ///< from number_of()
    std::string name;
    bool operator==(key const&) const = default;
  };

  /// The right to be the one of this process who deals with the name: from the attempt until the lock is
  /// given back or lost. Move-only; leaves when destroyed.
  class turn {
   public:
    turn() = default;
    turn(turn&& other) noexcept;
    turn& operator=(turn&&) = delete;
    ~turn() { leave(); }
    void leave() noexcept;
    /// The attempt succeeded: from now on enter() by the same owner finds the hold.
    void took(std::shared_ptr<occupant> const&) noexcept;

   private:
    friend class local_queue;
    turn(local_queue& r, key k) noexcept : queue_(&r), key_(std::move(k)) {}
    local_queue* queue_ = nullptr;
    key key_;
  };

  struct not_now {
    acquire_status why;
    std::shared_ptr<occupant> holder;  ///< null while the one in front has not got it yet
  };
  struct already_held {
    std::shared_ptr<occupant> by_me;
  };
  using entrance = std::variant<turn, already_held, not_now>;

  /// While somebody else of this process has the turn: until when to stay in line before this is asked
  /// again; nothing: not any longer. Called without any mutex, with the holder if there is one yet.
  using stay_until =
      std::function<std::optional<std::chrono::steady_clock::time_point>(occupant const* holder)>;

  static local_queue& of_this_process();

  /// A number for the identity of a set of tables and of the server that they are on: keys are many,
  /// databases few.
  std::size_t number_of(std::string const& database_identity);

  /// Stands in line for the name. Returns with the turn; or with the hold if `owner` has it already; or when
  /// `deadline` passes (a past one: at once, busy), `stop` is triggered, or `how_long` (if there is one) says
  /// so.
  entrance enter(key, owner_id const& owner, std::optional<std::chrono::steady_clock::time_point> deadline,
                 std::stop_token stop, stay_until const& how_long = {});

 private:
  struct waiter {
    owner_id owner;
    bool has_turn = false;
    std::condition_variable_any wake;
  };
  struct place {
    explicit place(owner_id o) : owner(std::move(o)) {}
    owner_id owner;  ///< of whoever has the turn
    std::weak_ptr<occupant> held;
    std::list<waiter*> line;
  };
  struct key_hash {
    std::size_t operator()(key const& k) const noexcept {
      return std::hash<std::string>()(k.name) + k.database;
    }
  };

  /// In line. @return whether it came to the turn
  bool wait_in_line(std::unique_lock<std::mutex>&, key const&, waiter&,
                    std::optional<std::chrono::steady_clock::time_point> deadline, std::stop_token const&,
                    stay_until const&);
  std::optional<entrance> enter_at_once(std::unique_lock<std::mutex>&, key const&, owner_id const&);
  void leave(key const&) noexcept;
  void took(key const&, std::shared_ptr<occupant> const&) noexcept;

  std::mutex mutex_;
  std::unordered_map<std::string, std::size_t> databases_;
  std::unordered_map<key, place, key_hash> places_;
};

}  // namespace rowlock::waiting
