#include "demo/redis.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <random>
#include <stdexcept>

#ifdef ROWLOCK_DEMO_HIREDIS
#include <hiredis/hiredis.h>
#endif

namespace rowlock::demo {
namespace {

constexpr auto program = "/usr/bin/redis-server";

}  // namespace

std::string redis_server::missing() {
#ifndef ROWLOCK_DEMO_HIREDIS
  return "built without libhiredis";
#else
  return ::access(program, X_OK) == 0 ? "" : "there is no redis-server";
#endif
}

redis_server::redis_server() {
  folder_ = (std::filesystem::temp_directory_path() / "rowlock-redis-XXXXXX").string();
  int ends[2];
  if (::mkdtemp(folder_.data()) == nullptr || ::pipe(ends) != 0)
    throw std::runtime_error("no room for a Redis server");
  pid_t const parent = ::getpid();
  auto const where = socket();
  pid_ = ::fork();
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);
    ::dup2(ends[1], STDOUT_FILENO);
    ::close(ends[0]);
    ::close(ends[1]);
    ::execl(program, program, "--port", "0", "--unixsocket", where.c_str(), "--save", "", "--appendonly",
            "no", nullptr);
    ::_exit(127);
  }
  ::close(ends[1]);
  std::string said;
  char buffer[512];
  while (said.find("eady to accept connections") == said.npos) {
    auto const n = ::read(ends[0], buffer, sizeof buffer);
    if (n <= 0) throw std::runtime_error("the Redis server did not start: " + said);
    said.append(buffer, static_cast<std::size_t>(n));
  }
  // Left open, for what it may say yet.
}

redis_server::~redis_server() {
  ::kill(pid_, SIGTERM);
  ::waitpid(pid_, nullptr, 0);
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

#ifdef ROWLOCK_DEMO_HIREDIS
struct redis_lock::state {
  std::unique_ptr<redisContext, decltype(&redisFree)> connection;
  std::string key;
  std::string ttl;
  std::mt19937_64 random{std::random_device{}()};
  std::string token{};

  /// @return whether the reply was OK or a number other than 0
  template <class... Words>
  bool ask(Words const&... words) {
    char const* text[] = {words.c_str()...};
    std::size_t const length[] = {words.size()...};
    std::unique_ptr<redisReply, decltype(&freeReplyObject)> const reply(
        static_cast<redisReply*>(
            redisCommandArgv(connection.get(), static_cast<int>(sizeof...(words)), text, length)),
        &freeReplyObject);
    if (!reply) throw std::runtime_error(std::string("Redis: ") + connection->errstr);
    if (reply->type == REDIS_REPLY_ERROR) throw std::runtime_error(std::string("Redis: ") + reply->str);
    return reply->type == REDIS_REPLY_STATUS || (reply->type == REDIS_REPLY_INTEGER && reply->integer != 0);
  }
};

redis_lock::redis_lock(std::string const& socket, std::string key, std::chrono::milliseconds ttl)
    : state_(new state{
          {redisConnectUnix(socket.c_str()), &redisFree}, std::move(key), std::to_string(ttl.count())}) {
  if (!state_->connection || state_->connection->err != 0)
    throw std::runtime_error("no connection to Redis at " + socket);
}

bool redis_lock::try_take() {
  state_->token = fmt::format("{:016x}", state_->random());
  return state_->ask(std::string("SET"), state_->key, state_->token, std::string("NX"), std::string("PX"),
                     state_->ttl);
}

void redis_lock::give_back() {
  std::string const script =
      "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";
  state_->ask(std::string("EVAL"), script, std::string("1"), state_->key, state_->token);
}
#else
struct redis_lock::state {};
redis_lock::redis_lock(std::string const&, std::string, std::chrono::milliseconds) {
  throw std::runtime_error(redis_server::missing());
}
bool redis_lock::try_take() { return false; }
void redis_lock::give_back() {}
#endif

redis_lock::~redis_lock() = default;

}  // namespace rowlock::demo
