// ZooKeeper: an ephemeral node that is created and deleted; and, for waiting, its own recipe: sequential
// nodes, of which each watches the one before it.
#include "systems/system.hpp"

#ifdef ROWLOCK_BENCH_ZOOKEEPER
#define THREADED
#include <fmt/format.h>
#include <zookeeper/zookeeper.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string_view>

namespace rowlock::bench {
namespace {

using namespace std::chrono_literals;

void check_zookeeper(int code, char const* what) {
  if (code != ZOK) throw peer_error(fmt::format("ZooKeeper: {}: {}", what, ::zerror(code)));
}

/// One session for all threads of the process, as its documentation has it.
class zookeeper_session : public session {
 public:
  zookeeper_session(std::string const& address, bool queue) : queue_(queue) {
    ::zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
    handle_.reset(::zookeeper_init(address.c_str(), on_event, 10'000, nullptr, this, 0));
    if (!handle_) throw peer_error("ZooKeeper: zookeeper_init failed");
    std::unique_lock guard(mutex_);
    if (!connected_changed_.wait_for(guard, 10s, [this] { return connected_; }))
      throw peer_error("ZooKeeper: no connection within 10 s");
  }
  std::unique_ptr<client> new_client() override;
  zhandle_t* handle() const noexcept { return handle_.get(); }

 private:
  struct end_of_zookeeper {
    void operator()(zhandle_t* h) const noexcept { ::zookeeper_close(h); }
  };
  static void on_event(zhandle_t*, int type, int state, char const*, void* context) {
    if (type != ZOO_SESSION_EVENT || state != ZOO_CONNECTED_STATE) return;
    auto& self = *static_cast<zookeeper_session*>(context);
    std::scoped_lock const guard(self.mutex_);
    self.connected_ = true;
    self.connected_changed_.notify_all();
  }

  bool queue_;
  std::mutex mutex_;
  std::condition_variable connected_changed_;
  bool connected_ = false;
  std::unique_ptr<zhandle_t, end_of_zookeeper> handle_;  // the last member: its thread calls on_event
};

class zookeeper_client : public client {
 public:
  explicit zookeeper_client(zookeeper_session& s) : session_(s) {}
  bool take(std::string const& name, std::stop_token const&) override {
    path_ = "/" + name;
    check_zookeeper(::zoo_create(session_.handle(), path_.c_str(), "owner", 5, &ZOO_OPEN_ACL_UNSAFE,
                                 ZOO_EPHEMERAL, nullptr, 0),
                    "create");
    return true;
  }
  void give_back() override { check_zookeeper(::zoo_delete(session_.handle(), path_.c_str(), -1), "delete"); }

 private:
  zookeeper_session& session_;
  std::string path_;
};

/// What a watcher tells the thread that waits. Shared with the library's thread.
struct wake_up {
  std::mutex mutex;
  std::condition_variable changed;
  bool rung = false;
};

class zookeeper_queue_client : public client {
 public:
  explicit zookeeper_queue_client(zookeeper_session& s) : session_(s) {}
  ~zookeeper_queue_client() override {
    // A watcher that was not called yet has the address of its wake_up: all of them end with the session,
    // which is later. So those that may still be called are left to the process' end.
    for (auto& each : pending_) (void)each.release();
  }

  bool take(std::string const& name, std::stop_token const& stop) override {
    queue_ = "/" + name;
    if (queue_ != made_) {
      auto const code =
          ::zoo_create(session_.handle(), queue_.c_str(), nullptr, -1, &ZOO_OPEN_ACL_UNSAFE, 0, nullptr, 0);
      if (code != ZNODEEXISTS) check_zookeeper(code, "create the queue");
      made_ = queue_;
    }
    std::array<char, 512> path{};
    check_zookeeper(
        ::zoo_create(session_.handle(), (queue_ + "/n-").c_str(), nullptr, -1, &ZOO_OPEN_ACL_UNSAFE,
                     ZOO_EPHEMERAL | ZOO_SEQUENCE, path.data(), static_cast<int>(path.size())),
        "create in the queue");
    path_ = path.data();
    while (!stop.stop_requested()) {
      auto const before = predecessor();
      if (before.empty()) return true;
      wait_for_end_of_node(queue_ + "/" + before, stop);
    }
    give_back();
    return false;
  }
  void give_back() override { check_zookeeper(::zoo_delete(session_.handle(), path_.c_str(), -1), "delete"); }

 private:
  /// The node before ours; empty if ours is the first.
  std::string predecessor() {
    String_vector children{};
    check_zookeeper(::zoo_get_children(session_.handle(), queue_.c_str(), 0, &children), "get children");
    std::string_view const own = std::string_view(path_).substr(queue_.size() + 1);
    std::string best;
    for (int i = 0; i < children.count; ++i) {
      std::string_view const each = children.data[i];
      if (each < own && each > best) best = each;
    }
    ::deallocate_String_vector(&children);
    return best;
  }

  void wait_for_end_of_node(std::string const& path, std::stop_token const& stop) {
    auto bell = std::make_unique<wake_up>();
    auto const ring = [](zhandle_t*, int, int, char const*, void* context) {
      auto& rung = *static_cast<wake_up*>(context);
      std::scoped_lock const guard(rung.mutex);
      rung.rung = true;
      rung.changed.notify_all();
    };
    Stat ignored{};
    auto const code = ::zoo_wexists(session_.handle(), path.c_str(), ring, bell.get(), &ignored);
    if (code == ZNONODE) {
      // It is gone already; the watch is for its return, which never comes.
      pending_.push_back(std::move(bell));
      return;
    }
    check_zookeeper(code, "exists");
    std::unique_lock guard(bell->mutex);
    while (!bell->rung && !stop.stop_requested()) bell->changed.wait_for(guard, 100ms);
    bool const called = bell->rung;
    guard.unlock();
    if (!called) pending_.push_back(std::move(bell));
  }

  zookeeper_session& session_;
  std::string queue_;
  std::string made_;
  std::string path_;
  std::vector<std::unique_ptr<wake_up>> pending_;
};

std::unique_ptr<client> zookeeper_session::new_client() {
  if (queue_) return std::make_unique<zookeeper_queue_client>(*this);
  return std::make_unique<zookeeper_client>(*this);
}

opener zookeeper_opener(bool queue) {
  return [queue](std::string const& address) { return std::make_unique<zookeeper_session>(address, queue); };
}

}  // namespace
}  // namespace rowlock::bench

#else

namespace rowlock::bench {
namespace {

opener zookeeper_opener(bool) { return {}; }

}  // namespace
}  // namespace rowlock::bench

#endif

namespace rowlock::bench {

void add_zookeeper(std::vector<system_entry>& all) {
  all.push_back({"zookeeper", "ZooKeeper", "zookeeper", zookeeper_opener(false)});
  all.push_back({"zookeeper-queue", "ZooKeeper, sequential recipe", "zookeeper", zookeeper_opener(true)});
}

}  // namespace rowlock::bench
