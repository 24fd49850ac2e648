// Redis' lock as its documentation has it: SET NX PX, and a script that deletes the key if it is still ours.
// Who waits is woken by pub/sub, as Redisson does it: subscribe, try once more, wait for the message.
#include "systems/system.hpp"

#ifdef ROWLOCK_BENCH_HIREDIS
#include <fmt/format.h>
#include <hiredis/hiredis.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <utility>

namespace rowlock::bench {
namespace {

constexpr int ttl_ms = 30'000;

struct free_redis {
  void operator()(redisContext* c) const noexcept { ::redisFree(c); }
  void operator()(redisReply* r) const noexcept { ::freeReplyObject(r); }
};
using redis_reply = std::unique_ptr<redisReply, free_redis>;

class redis_connection {
 public:
  explicit redis_connection(std::string const& address) {
    auto const colon = address.rfind(':');
    timeval const timeout{5, 0};
    context_.reset(::redisConnectWithTimeout(address.substr(0, colon).c_str(),
                                             std::stoi(address.substr(colon + 1)), timeout));
    if (!context_ || context_->err != 0)
      throw peer_error(fmt::format("Redis: {}", context_ ? context_->errstr : "out of memory"));
    ::redisSetTimeout(context_.get(), timeout);
  }

  redis_reply ask(std::initializer_list<std::string_view> words) {
    append(words);
    return reply();
  }
  void append(std::initializer_list<std::string_view> words) {
    std::vector<char const*> texts;
    std::vector<std::size_t> lengths;
    for (auto const word : words) {
      texts.push_back(word.data());
      lengths.push_back(word.size());
    }
    ::redisAppendCommandArgv(context_.get(), static_cast<int>(texts.size()), texts.data(), lengths.data());
  }
  void send() {
    for (int done = 0; done == 0;)
      if (::redisBufferWrite(context_.get(), &done) != REDIS_OK) fail();
  }
  redis_reply reply() {
    void* got = nullptr;
    if (::redisGetReply(context_.get(), &got) != REDIS_OK) fail();
    redis_reply r(static_cast<redisReply*>(got));
    if (r->type == REDIS_REPLY_ERROR) throw peer_error(fmt::format("Redis: {}", r->str));
    return r;
  }
  /// What has come, or comes within so many milliseconds.
  redis_reply reply_within(int ms) {
    void* got = nullptr;
    if (::redisGetReplyFromReader(context_.get(), &got) != REDIS_OK) fail();
    if (got == nullptr) {
      pollfd ask{context_->fd, POLLIN, 0};
      if (::poll(&ask, 1, ms) <= 0) return {};
      if (::redisBufferRead(context_.get()) != REDIS_OK) fail();
      if (::redisGetReplyFromReader(context_.get(), &got) != REDIS_OK) fail();
    }
    return redis_reply(static_cast<redisReply*>(got));
  }

 private:
  [[noreturn]] void fail() { throw peer_error(fmt::format("Redis: {}", context_->errstr)); }

  std::unique_ptr<redisContext, free_redis> context_;
};

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
  redis_client(std::string const& address, bool wakes)
      : connection_(address),
        release_(loaded(connection_, wakes ? waking_release : plain_release)),
        wakes_(wakes),
        address_(address) {
    static std::atomic<int> clients = 0;
    value_ = fmt::format("{}-{}-0123456789abcdef", ::getpid(), ++clients);
  }

  bool take(std::string const& name, std::stop_token const& stop) override {
    name_ = name;
    if (attempt()) return true;
    if (!wakes_) throw peer_error("somebody else has a lock that nobody competes for");
    channel_ = "wake:" + name;
    if (!listener_) listener_.emplace(address_);
    listener_->append({"SUBSCRIBE", channel_});
    listener_->send();
    bool const got = wait(stop);
    // As Redisson does: nobody waits for the answer to this.
    listener_->append({"UNSUBSCRIBE", channel_});
    listener_->send();
    return got;
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
  bool wait(std::stop_token const& stop) {
    while (!stop.stop_requested()) {
      auto const said = listener_->reply_within(100);
      if (!said || said->type != REDIS_REPLY_ARRAY) continue;
      // "subscribe" is a moment to look again, too: the message may have come before it.
      std::string_view const kind(said->element[0]->str, said->element[0]->len);
      if ((kind == "message" || kind == "subscribe") && attempt()) return true;
    }
    return false;
  }

  inline static std::string const ttl = std::to_string(ttl_ms);

  redis_connection connection_;
  std::string release_;
  bool wakes_;
  std::string address_;
  std::optional<redis_connection> listener_;
  std::string value_;
  std::string name_;
  std::string channel_;
};

class redis_session : public session {
 public:
  redis_session(std::string address, bool wakes) : address_(std::move(address)), wakes_(wakes) {}
  std::unique_ptr<client> new_client() override { return std::make_unique<redis_client>(address_, wakes_); }

 private:
  std::string address_;
  bool wakes_;
};

opener redis_opener(bool wakes) {
  return [wakes](std::string const& address) { return std::make_unique<redis_session>(address, wakes); };
}

}  // namespace
}  // namespace rowlock::bench

#else

namespace rowlock::bench {
namespace {

opener redis_opener(bool) { return {}; }

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
}

}  // namespace rowlock::bench
