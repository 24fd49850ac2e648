#pragma once
#include <fmt/format.h>
#include <hiredis/hiredis.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "systems/system.hpp"

namespace rowlock::bench {

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

  redis_reply ask(std::vector<std::string_view> const& words) {
    auto const text = as_command(words);
    if (::redisAppendFormattedCommand(context_.get(), text.data(), text.size()) != REDIS_OK) fail();
    return reply();
  }
  /// Writes at once, also while another thread reads: it touches nothing that reading needs.
  void send_now(std::vector<std::string_view> const& words) {
    auto const text = as_command(words);
    for (std::size_t sent = 0; sent < text.size();) {
      auto const got = ::write(context_->fd, text.data() + sent, text.size() - sent);
      if (got < 0 && errno != EINTR) throw peer_error("Redis: the connection is gone");
      if (got > 0) sent += static_cast<std::size_t>(got);
    }
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
  /// As the protocol has it.
  static std::string as_command(std::vector<std::string_view> const& words) {
    auto text = fmt::format("*{}\r\n", words.size());
    for (auto const word : words) text += fmt::format("${}\r\n{}\r\n", word.size(), word);
    return text;
  }
  redis_reply reply() {
    void* got = nullptr;
    if (::redisGetReply(context_.get(), &got) != REDIS_OK) fail();
    redis_reply r(static_cast<redisReply*>(got));
    if (r->type == REDIS_REPLY_ERROR) throw peer_error(fmt::format("Redis: {}", r->str));
    return r;
  }
  [[noreturn]] void fail() { throw peer_error(fmt::format("Redis: {}", context_->errstr)); }

  std::unique_ptr<redisContext, free_redis> context_;
};

}  // namespace rowlock::bench
