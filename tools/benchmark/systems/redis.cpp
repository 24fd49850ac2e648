// Redis' lock as its documentation has it: SET NX PX, and a script that deletes the key if it is still ours.
// Who waits is woken by pub/sub, as Redisson does it: subscribe, try once more, wait for the message.
#include "systems/system.hpp"

#ifdef ROWLOCK_BENCH_HIREDIS
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <string_view>
#include <utility>

#include "systems/redis_connection.hpp"
#include "systems/redis_hub.hpp"

namespace rowlock::bench {
namespace {

constexpr int ttl_ms = 30'000;

constexpr std::string_view plain_release =
    "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";
constexpr std::string_view waking_release =
    "if redis.call('get',KEYS[1])==ARGV[1] then redis.call('del',KEYS[1]) redis.call('publish',KEYS[2],'0') "
    "return 1 "
    "else return 0 end";

/// Loaded once for each connection; sent by its digest.
std::string loaded(redis_connection& c, std::string_view script) {
  return c.ask({"SCRIPT", "LOAD", script})->str;
}

class redis_client : public client {
 public:
  redis_client(std::string const& address, redis_hub& hub, bool wakes)
      : connection_(address),
        release_(loaded(connection_, wakes ? waking_release : plain_release)),
        wakes_(wakes),
        hub_(hub) {
    static std::atomic<int> clients = 0;
    value_ = fmt::format("{}-{}-0123456789abcdef", ::getpid(), ++clients);
  }

  bool take(std::string const& name, std::stop_token const& stop) override {
    name_ = name;
    if (attempt()) return true;
    if (!wakes_) throw peer_error("somebody else has a lock that nobody competes for");
    return hub_.wait(
        "wake:" + name, [this] { return attempt(); }, stop);
  }

  void give_back() override {
    auto const answer = wakes_ ? connection_.ask({"EVALSHA", release_, "2", name_, "wake:" + name_, value_})
                               : connection_.ask({"EVALSHA", release_, "1", name_, value_});
    if (answer->integer != 1) throw peer_error("Redis: the key was not ours any more");
  }

 private:
  bool attempt() {
    auto const answer = connection_.ask({"SET", name_, value_, "NX", "PX", ttl});
    return answer->type == REDIS_REPLY_STATUS;
  }
  inline static std::string const ttl = std::to_string(ttl_ms);

  redis_connection connection_;
  std::string release_;
  bool wakes_;
  redis_hub& hub_;
  std::string value_;
  std::string name_;
};

constexpr std::string_view batch_take =
    "for i=1,#KEYS do if redis.call('exists',KEYS[i])==1 then return 0 end end "
    "for i=1,#KEYS do redis.call('set',KEYS[i],ARGV[1],'PX',ARGV[2]) end return 1";
constexpr std::string_view batch_release =
    "for i=1,#KEYS do if redis.call('get',KEYS[i])==ARGV[1] then redis.call('del',KEYS[i]) end end return 1";

/// Many names at once: all or nothing, by one script.
class redis_batch_client : public client {
 public:
  explicit redis_batch_client(std::string const& address)
      : connection_(address),
        take_(loaded(connection_, batch_take)),
        release_(loaded(connection_, batch_release)) {}
  bool take(std::string const& name, std::stop_token const&) override {
    names_.clear();
    for (int i = 0; i < batch_size; ++i) names_.push_back(fmt::format("{}-{}", name, i));
    if (run(take_) != 1) throw peer_error("Redis: somebody else has one of the names");
    return true;
  }
  void give_back() override { run(release_); }

 private:
  long long run(std::string const& script) {
    auto const count = std::to_string(batch_size);
    auto const ttl = std::to_string(ttl_ms);
    std::vector<std::string_view> words{"EVALSHA", script, count};
    words.insert(words.end(), names_.begin(), names_.end());
    words.insert(words.end(), {"owner", ttl});
    return connection_.ask(words)->integer;
  }

  redis_connection connection_;
  std::string take_;
  std::string release_;
  std::vector<std::string> names_;
};

class redis_batch_session : public session {
 public:
  explicit redis_batch_session(std::string address) : address_(std::move(address)) {}
  std::unique_ptr<client> new_client() override { return std::make_unique<redis_batch_client>(address_); }

 private:
  std::string address_;
};

class redis_session : public session {
 public:
  redis_session(std::string address, bool wakes)
      : address_(std::move(address)), wakes_(wakes), hub_(address_) {}
  std::unique_ptr<client> new_client() override {
    return std::make_unique<redis_client>(address_, hub_, wakes_);
  }

 private:
  std::string address_;
  bool wakes_;
  redis_hub hub_;
};

opener redis_opener(bool wakes) {
  return [wakes](std::string const& address) { return std::make_unique<redis_session>(address, wakes); };
}

opener redis_batch_opener() {
  return [](std::string const& address) { return std::make_unique<redis_batch_session>(address); };
}

}  // namespace
}  // namespace rowlock::bench

#else

namespace rowlock::bench {
namespace {

opener redis_opener(bool) { return {}; }
opener redis_batch_opener() { return {}; }

}  // namespace
}  // namespace rowlock::bench

#endif

namespace rowlock::bench {

void add_redis(std::vector<system_entry>& all) {
  all.push_back({"redis", "Redis, in memory", "redis", redis_opener(false)});
  all.push_back({"redis-durable", "Redis, appendfsync always", "redis-durable", redis_opener(false)});
  all.push_back({"redis-pubsub", "Redis, in memory, pub/sub", "redis", redis_opener(true)});
  all.push_back(
      {"redis-durable-pubsub", "Redis, appendfsync always, pub/sub", "redis-durable", redis_opener(true)});
  all.push_back({"redis-batch", "Redis, in memory, one script", "redis", redis_batch_opener()});
  all.push_back({"redis-durable-batch", "Redis, appendfsync always, one script", "redis-durable",
                 redis_batch_opener()});
}

}  // namespace rowlock::bench
