#pragma once
// What this process holds and who of its threads waits for it, over all managers. One thread per database and
// name talks to the database; the others stand in line behind it, in order, and cost no round trip.

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

/// What stands in a place of the queue once its name was taken: a lock that is held. Thread-safe.
class local_holder {
 public:
  virtual ~local_holder() = default;
  virtual holder_info as_holder() const = 0;
  /// Whether its owner may have one more handle of it.
  virtual bool has_handles() const noexcept = 0;

 protected:
  local_holder() = default;
  local_holder(local_holder const&) = default;
  local_holder& operator=(local_holder const&) = default;
};

/// Who stands in line, as far as it can do with what the one before it had.
class successor {
 public:
  virtual ~successor() = default;
  /// Whether it would take over what that one gives back, as it is. `of`: whose that is, a manager's, for
  /// comparing. Called with the queue's mutex: must neither wait nor call back.
  virtual bool takes_over(local_holder const&, void const* of) const noexcept = 0;

 protected:
  successor() = default;
  successor(successor const&) = default;
  successor& operator=(successor const&) = default;
};

class local_queue {
 public:
  struct key {
    std::size_t database = 0;  ///< from number_of()
    std::string name;
    bool operator==(key const&) const = default;
    /// For what an owner of the name has beside others: nobody else comes there.
    key of(owner_id const& o) const {
      return {database, name + '\0' + o.process + '\0' + std::to_string(o.thread)};
    }
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
    void took(std::shared_ptr<local_holder> const&) noexcept;
    /// Whether who is next in line would take it over, at this moment.
    bool has_successor_for(local_holder const&, void const* of) const noexcept;
    /// Leaves to the next in line with what was held, if it takes that over; whoever gets the turn answers
    /// for it from then on. @return false if nobody does, and nothing was done
    bool leave_to_successor(std::shared_ptr<local_holder> const&, void const* of) noexcept;

   private:
    friend class local_queue;
    turn(local_queue& r, key k) noexcept : queue_(&r), key_(std::move(k)) {}
    local_queue* queue_ = nullptr;
    key key_;
  };

  /// A turn that has come to who stood in line.
  struct arrival {
    local_queue::turn turn;
    std::shared_ptr<local_holder> handed_off;  ///< what was left with it; its receiver answers for it
  };

  /// A place in line for the turn. Move-only; leaves the line when destroyed, and hands the turn on if that
  /// has come meanwhile: who has a successor's place calls leave() first. Whoever stands there is rung when
  /// it comes.
  class in_line {
   public:
    in_line(in_line&& other) noexcept = default;
    in_line& operator=(in_line&&) = delete;
    ~in_line();
    /// The turn, once it has come; this is empty then.
    std::optional<arrival> come() noexcept;
    /// Leaves the line; this is empty then. @return the turn, if it had come
    std::optional<arrival> leave() noexcept;
    /// To be called before that. Who has the name now; null while that one has not got it yet.
    std::shared_ptr<local_holder> in_front() const;

   private:
    friend class local_queue;
    struct waiter {
      key where;
      owner_id owner;
      bell& to_ring;
      successor const* as_successor;
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
    std::shared_ptr<local_holder> holder;  ///< null while the one in front has not got it yet
  };

  static local_queue& of_this_process();

  /// A number for the identity of a set of tables and of the server that they are on: keys are many,
  /// databases few.
  std::size_t number_of(std::string const& database_identity);

  using entrance = std::variant<turn, already_held, in_line, busy>;
  /// Does not wait. The turn, if nobody has it; what `owner` holds, if that has the name; else a place at the
  /// end of the line, or none, if there is no bell to ring. Bell and successor outlive the place.
  entrance enter(key const&, owner_id const& owner, bell* to_ring, successor const* = nullptr);
  /// Whether somebody stands in line for it.
  bool is_waited_for(key const&) const noexcept;

 private:
  struct place {
    explicit place(owner_id o) : owner(std::move(o)) {}
    owner_id owner;  ///< of whoever has the turn
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
  std::unordered_map<std::string, std::size_t> databases_;
  places places_;
};

}  // namespace rowlock::waiting
