#pragma once
// The local queue: which names this process holds, and which of its threads wait for them, over all managers.
// For each database and name one thread talks to the database. The other threads cost no round trip.
//
//   enter() returns  if
//   turn             no thread of the process has the name.
//   already_held     the same owner holds the name, and can share it.
//   in_line          another thread has the turn, and there is a bell.
//   busy             another thread has the turn, and there is no bell.
//
// The life of a turn, from the attempt to the end of the lock.
//
//   enter() -> took() -> leave()
//                     -> leave_to_successor(), with the lock
//           -> leave(), without a lock
//
// - A name has a place exactly while a thread has its turn.
// - The first waiter gets the turn, and its bell rings. If it leaves, it passes the turn on.
// - To leave costs the same with any number of waiters: an event loop can cancel thousands at once.
// - A hand-off (lib/doc/hand_on.md) needs a waiter that accepts by its `successor`. This waiter must use or
//   release the lock, so it calls in_line::leave() before its end.
// - In a forked child the parent's turns and places do nothing: the mutex can stay locked for ever.
// - The mutex is locked while a bell rings and while a successor decides.
//
// lock_call and exchanging enter the queue. holding::hold has the turn of a held lock.

#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <rowlock/types.hpp>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>

#include "waiting/bell.hpp"

namespace rowlock::waiting {

/// A held lock. Thread-safe.
class local_holder {
 public:
  virtual ~local_holder() = default;
  virtual holder_info as_holder() const = 0;
  /// Whether its owner may share it.
  virtual bool has_handles() const noexcept = 0;

 protected:
  local_holder() = default;
  local_holder(local_holder const&) = default;
  local_holder& operator=(local_holder const&) = default;
};

class successor {
 public:
  virtual ~successor() = default;
  /// Whether the waiter accepts the lock as it is. `of`: the lock's manager, for comparing. Called with the
  /// queue's mutex: must neither wait nor call back.
  virtual bool takes_over(local_holder const&, void const* of) const noexcept = 0;

 protected:
  successor() = default;
  successor(successor const&) = default;
  successor& operator=(successor const&) = default;
};

class local_queue {
 public:
  struct key {
    std::size_t database = 0;  ///< sessions::database::number()
    std::string name;
    bool operator==(key const&) const = default;
    /// The place of one owner within the name.
    key of(owner_id const& o) const {
      return {database, name + '\0' + o.process + '\0' + std::to_string(o.thread)};
    }
  };

  /// Move-only. The destructor leaves.
  class turn {
   public:
    turn() = default;
    turn(turn&& other) noexcept;
    turn& operator=(turn&&) = delete;
    ~turn() { leave(); }
    void leave() noexcept;
    /// enter() by the same owner finds the lock from now on.
    void took(std::shared_ptr<local_holder> const&) noexcept;
    /// Whether the first waiter would accept it at this moment.
    bool has_successor_for(local_holder const&, void const* of) const noexcept;
    /// @return false if the first waiter does not accept, and nothing was done
    bool leave_to_successor(std::shared_ptr<local_holder> const&, void const* of) noexcept;

   private:
    friend class local_queue;
    turn(local_queue& r, key k) noexcept : queue_(&r), key_(std::move(k)) {}
    local_queue* queue_ = nullptr;
    key key_;
  };

  struct arrival {
    local_queue::turn turn;
    std::shared_ptr<local_holder> handed_off;  ///< by a hand-off
  };

  /// Move-only. The destructor leaves, and passes on a turn that has come, but not a lock: see leave().
  class in_line {
   public:
    in_line(in_line&& other) noexcept = default;
    in_line& operator=(in_line&&) = delete;
    ~in_line();
    /// The turn, if it has come. Then this is empty.
    std::optional<arrival> come() noexcept;
    /// This is empty then. @return the turn, if it had come
    std::optional<arrival> leave() noexcept;
    /// The holder; null while no lock is taken. Precondition: this is not empty.
    std::shared_ptr<local_holder> in_front() const;

   private:
    friend class local_queue;
    struct waiter {
      key where;
      owner_id owner;
      bell& to_ring;
      successor const* as_successor;
      std::list<waiter*>::iterator at{};  ///< in the line, until it has the turn
      bool has_turn = false;
      std::shared_ptr<local_holder> handed_off{};
    };
    in_line(local_queue&, key, owner_id const&, bell&, successor const*);
    arrival take_turn() noexcept;
    local_queue* queue_;
    std::unique_ptr<waiter> me_;
  };

  struct already_held {
    std::shared_ptr<local_holder> by_me;
  };
  struct busy {
    std::shared_ptr<local_holder> holder;  ///< null while no lock is taken
  };

  static local_queue& of_this_process();

  using entrance = std::variant<turn, already_held, in_line, busy>;
  /// Does not wait. Bell and successor must outlive the place in line.
  entrance enter(key const&, owner_id const& owner, bell* to_ring, successor const* = nullptr);
  bool is_waited_for(key const&) const noexcept;

 private:
  struct place {
    explicit place(owner_id o) : owner(std::move(o)) {}
    owner_id owner;  ///< of the turn
    std::weak_ptr<local_holder> held;
    std::list<in_line::waiter*> line;
  };
  struct key_hash {
    std::size_t operator()(key const& k) const noexcept {
      return std::hash<std::string>()(k.name) + k.database;
    }
  };
  using places = std::unordered_map<key, place, key_hash>;

  void hand_on(places::iterator, std::shared_ptr<local_holder> handed_off = {}) noexcept;
  void leave(key const&) noexcept;
  /// @return whether the turn had come
  bool leave_line(in_line::waiter&, bool hand_turn_on) noexcept;
  bool has_successor(places::iterator, local_holder const&, void const* of) const noexcept;
  void took(key const&, std::shared_ptr<local_holder> const&) noexcept;

  mutable std::mutex mutex_;
  places places_;
};

}  // namespace rowlock::waiting
