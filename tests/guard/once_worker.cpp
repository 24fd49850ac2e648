// A process that does each piece of work once, with others that do the same: rowlock_once_worker DRIVER URL
// SCHEMA HOW KEYS TTL_MS. HOW is "transaction" (the work's data and its record are committed together) or
// "plain". It may be killed at any moment; once_load.cpp counts what is there then.
#include <fmt/format.h>

#include <iostream>
#include <random>
#include <rowlock/rowlock.hpp>
#include <thread>

#include "guard/program.hpp"

using namespace rowlock;
using namespace rowlock::test;
using namespace std::chrono_literals;

namespace {

class worker {
 public:
  worker(int how, std::string const& url, std::string schema, bool plain)
      : p_(connect_by(static_cast<driver>(how), url)),
        m_(url, options(schema)),
        tx_(p_->view(m_)),
        begin_(url.starts_with("sqlite:") ? "BEGIN IMMEDIATE" : "BEGIN"),
        table_(schema.empty() ? "effects" : schema + ".effects"),
        plain_(plain) {}

  void do_once(std::string const& key, std::chrono::milliseconds ttl) {
    for (;;) {
      try {
        auto const work = [&](once_run& run) { plain_ ? in_pieces(run) : in_transaction(run); };
        if (run_once(m_, key, 24h, work, {.ttl = ttl, .wait = 10s})) return;
      } catch (std::exception const& e) {  // lost, or a file that is busy: it is tried again
        std::cerr << key << ": " << e.what() << std::endl;
      }
    }
  }

 private:
  static manager_options options(std::string schema) {
    manager_options o;
    o.schema = std::move(schema);
    o.connections = 1;
    o.queue_connections = 1;
    return o;
  }
  void in_transaction(once_run& run) {
    auto const id = name();
    try {
      p_->run(begin_);
      write(run, id, "data");
      pause();
      tx_->done(run, id);
      pause();
      p_->commit();
    } catch (...) {
      try {
        p_->run("ROLLBACK");
      } catch (std::exception const&) {  // there is none
      }
      throw;
    }
  }
  void in_pieces(once_run& run) {
    auto const id = name();
    write(run, id, "begin");
    pause();
    if (run.stop_token().stop_requested()) throw std::runtime_error("cut short");
    write(run, id, "end");
    run.set_result(id);
    pause();
  }
  void write(once_run const& run, std::string const& id, char const* what) {
    p_->run(
        fmt::format("INSERT INTO {} (k, run, what) VALUES ('{}', '{}', '{}')", table_, run.key(), id, what));
  }
  std::string name() {
    return fmt::format("{:016x}", std::uniform_int_distribution<std::uint64_t>()(random_));
  }
  void pause() {
    std::this_thread::sleep_for(std::chrono::microseconds(std::uniform_int_distribution(0, 6000)(random_)));
  }

  std::mt19937_64 random_{std::random_device{}()};
  std::unique_ptr<program> p_;
  lock_manager m_;
  std::shared_ptr<basic_transaction> tx_;
  std::string begin_;
  std::string table_;
  bool plain_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 7) return 64;
  worker w(std::stoi(argv[1]), argv[2], argv[3], std::string(argv[4]) == "plain");
  std::chrono::milliseconds const ttl(std::stoi(argv[6]));
  for (int k = 0; k < std::stoi(argv[5]); ++k) w.do_once(fmt::format("key/{:04}", k), ttl);
  return 0;
}
