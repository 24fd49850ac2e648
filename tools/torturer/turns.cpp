// What the threads of each workload do.
#include <algorithm>
#include <numeric>
#include <rowlock/rowlock.hpp>
#include <utility>

#include "taker.hpp"
#include "worker.hpp"

namespace rowlock::torture {
namespace {

class takes_one final : public thread_worker {
 public:
  takes_one(desk const& d, std::uint32_t thread) : thread_worker(d, thread) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(d.o.names); ++i)
      takers_.emplace_back(d.manager, d.o, name_of(i), how());
  }

  void turn(std::stop_token const& stop) override {
    auto const which = draw(takers_.size());
    auto& t = takers_[which];
    auto const r = begin(which, t.draw_units([this](std::size_t below) { return draw(below); }));
    write(r, happening::asks);
    try {
      auto got = t.take(r.units, patience(), stop);
      if (!got) return write(r, happening::got_none, to_string(got.status()));
      hold(t, r, *got, draw(2) == 0);
    } catch (error const& e) {
      failed(r, e);
    }
  }

 private:
  void hold(taker& t, record const& r, held_lock& lock, bool again) {
    bool given_back = false;
    auto const give_back = [&] {
      given_back = true;
      write(r, happening::gives_back);
      auto const result = lock.release();
      write(r, happening::gave_back, to_string(result));
    };
    {
      told mine(*this, r, lock);
      auto const held = [&] {
        mine.look();
        return lock.valid();
      };
      section_->run(
          lock, r.name,
          [&] {
            think(held);
            if (again) nest(t, r, lock, held);
          },
          [&] { think_briefly(held); }, give_back);
    }
    if (!given_back) give_back();
  }

  /// What is given back inside is still held outside. Where trust was over, it is another term.
  void nest(taker& t, record const& outer, held_lock const& lock, std::function<bool()> const& held) try {
    auto const asked = now();
    auto inner = t.take_again();
    if (!inner || !*inner) return;
    if ((*inner)->token() == lock.token()) {
      (void)(*inner)->release();
      return think(held);
    }
    auto r = begin(outer.name);
    r.at = asked;
    write(r, happening::asks);
    r.at = 0;
    hold(t, r, **inner, false);
  } catch (error const&) {  // it could not be asked: it has nothing
  }

  std::vector<taker> takers_;
};

class takes_several final : public thread_worker {
 public:
  using thread_worker::thread_worker;

  void turn(std::stop_token const& stop) override {
    std::vector<std::string> names;
    std::vector<record> records;
    for (auto const each : some_names()) {
      names.push_back(name_of(each));
      records.push_back(begin(each));
      write(records.back(), happening::asks);
    }
    auto const all = [&](happening what, std::string_view text) {
      for (auto const& r : records) write(r, what, text);
    };
    try {
      auto got = desk_.manager.try_acquire_all_for(names, patience(), how(), stop);
      if (!got) return all(happening::got_none, to_string(got.status()));
      {
        std::vector<std::unique_ptr<told>> mine;
        for (std::size_t i = 0; i < records.size(); ++i)
          mine.push_back(std::make_unique<told>(*this, records[i], (*got)[i]));
        think([&] {
          for (auto const& each : mine) each->look();
          return got->valid();
        });
      }
      all(happening::gives_back, {});
      auto const result = got->release();
      all(happening::gave_back, to_string(result));
    } catch (error const& e) {
      failed(records, e);
    }
  }

 private:
  /// One to three of them, in any order.
  std::vector<std::size_t> some_names() {
    std::vector<std::size_t> all(static_cast<std::size_t>(desk_.o.names));
    std::iota(all.begin(), all.end(), 0U);
    for (std::size_t i = all.size(); i > 1; --i) std::swap(all[i - 1], all[draw(i)]);
    all.resize(1 + draw(std::min<std::size_t>(all.size(), 3)));
    return all;
  }
};

class leads final : public thread_worker {
 public:
  leads(desk const& d, std::uint32_t thread) : thread_worker(d, thread) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(d.o.names); ++i)
      elections_.push_back(std::make_unique<election>(
          d.manager, name_of(i), election_options{.ttl = d.o.ttl, .value = "a candidate", .again = false}));
  }

  void turn(std::stop_token const& stop) override {
    auto const which = draw(elections_.size());
    auto const r = begin(which);
    write(r, happening::asks);
    bool led = false;
    try {
      elections_[which]->run(
          [&](leadership& l, std::stop_token const& stop_request) {
            led = true;
            {
              told mine(*this, r, l.lock());
              think([&] {
                mine.look();
                return !stop_request.stop_requested();
              });
            }
            write(r, happening::gives_back);
          },
          stop);
      write(r, led ? happening::gave_back : happening::got_none, {});
    } catch (error const& e) {
      if (led) return write(r, happening::gave_back, e.what());
      failed(r, e);
    }
  }

 private:
  std::vector<std::unique_ptr<election>> elections_;
};

class takes_by_majority final : public thread_worker {
 public:
  takes_by_majority(desk const& d, std::uint32_t thread) : thread_worker(d, thread) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(d.o.names); ++i)
      locks_.push_back(d.voters->make_mutex(name_of(i), how()));
  }

  void turn(std::stop_token const& stop) override {
    auto const which = draw(locks_.size());
    auto const r = begin(which);
    write(r, happening::asks);
    try {
      auto got = locks_[which].try_acquire_for(patience(), stop);
      if (!got) return write(r, happening::got_none, to_string(got.status()));
      {
        told mine(*this, r, *got);
        think([&] {
          mine.look();
          return got->valid();
        });
      }
      write(r, happening::gives_back);
      auto const result = got->release();
      write(r, happening::gave_back, to_string(result));
    } catch (error const& e) {
      failed(r, e);
    }
  }

 private:
  std::vector<quorum_mutex> locks_;
};

/// In transactions of the client's own.
class locks_rows final : public thread_worker {
 public:
  using thread_worker::thread_worker;

  void turn(std::stop_token const&) override {
    auto const which = draw(static_cast<std::size_t>(desk_.o.names));
    auto const r = begin(which);
    write(r, happening::asks);
    bool got = false;
    try {
      section_->lock_and_run(
          name_of(which), r.name,
          [&] {
            got = true;
            write(r, happening::got);
          },
          [&] { think([] { return true; }); });
      write(r, happening::gives_back);
      write(r, happening::gave_back);
    } catch (std::exception const& e) {
      if (!got) return failed(r, e);
      write(r, happening::gives_back);
      write(r, happening::gave_back, e.what());
    }
  }
};

}  // namespace

std::unique_ptr<thread_worker> make_worker(desk const& d, std::uint32_t thread) {
  switch (d.o.what) {
    case workload::all_at_once:
      return std::make_unique<takes_several>(d, thread);
    case workload::election:
      return std::make_unique<leads>(d, thread);
    case workload::quorum:
      return std::make_unique<takes_by_majority>(d, thread);
    case workload::row_lock:
      return std::make_unique<locks_rows>(d, thread);
    default:
      return std::make_unique<takes_one>(d, thread);
  }
}

}  // namespace rowlock::torture
