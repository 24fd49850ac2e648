#include "client.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <exception>
#include <memory>
#include <optional>
#include <rowlock/rowlock.hpp>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "crowd.hpp"
#include "history.hpp"
#include "ledger.hpp"
#include "printable.hpp"
#include "worker.hpp"

namespace rowlock::torture {
namespace {

void work(options const& o, ledger& l, std::filesystem::path const& folder, std::uint32_t seat,
          std::uint32_t life, int line) {
  history_writer const history(folder / (std::to_string(seat) + "." + std::to_string(life) + ".history"));
  manager_options mo;
  mo.table_prefix = "torture_";
  // Some wait for an answer for longer than what it grants may last.
  mo.reply_timeout = (seat % 3 == 1 ? 3 : 1) * o.ttl;
  if (!o.wait_queues) mo.queue_connections = 0;
  // By the term: a renewal may be told when its thread has gone on to the next lock.
  mo.on_event = [&](event const& e) {
    if (e.kind != event_kind::renewed || !e.trusted_until) return;
    record r;
    r.process = seat;
    r.life = life;
    r.what = happening::trusts;
    r.trusted_until = e.trusted_until->time_since_epoch().count();
    r.set_term(e.term);
    history.write(r);
  };
  lock_manager manager(o.connect(o.db), mo);
  std::vector<std::unique_ptr<lock_manager>> members;
  for (auto const& each : o.members) members.push_back(std::make_unique<lock_manager>(o.connect(each), mo));
  std::optional<quorum> voters;
  if (o.what == workload::quorum) {
    std::vector<lock_manager*> all{&manager};
    for (auto const& each : members) all.push_back(each.get());
    voters.emplace(all);
  }
  desk const shared{o, l, history, manager, voters ? &*voters : nullptr, seat, life};
  std::vector<std::unique_ptr<thread_worker>> workers;
  std::vector<std::jthread> threads;
  std::unique_ptr<crowd> coroutines;
  if (o.asynchronous) {
    coroutines = make_crowd(shared);
  } else {
    workers.reserve(static_cast<std::size_t>(o.threads));
    for (int i = 0; i < o.threads; ++i) workers.push_back(make_worker(shared, static_cast<std::uint32_t>(i)));
    threads.reserve(workers.size());
  }
  for (auto& w : workers)
    threads.emplace_back([&w](std::stop_token const& stop) {
      while (!stop.stop_requested()) w->turn(stop);
    });
  char none = 0;
  while (::read(line, &none, 1) < 0 && errno == EINTR) {
  }
}

}  // namespace

void be_client(options const& o, ledger& l, std::filesystem::path const& folder, std::uint32_t seat,
               std::uint32_t life, int line) noexcept {
  int status = 0;
  try {
    work(o, l, folder, seat, life, line);
  } catch (std::exception const& e) {
    on_stderr(fmt::format("client {} ended: {}\n", seat, printable(e.what())));
    status = 1;
  }
  ::_exit(status);
}

}  // namespace rowlock::torture
