#include "ledger.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <atomic>
#include <new>
#include <stdexcept>
#include <system_error>

#include "ledger_in_database.hpp"

namespace rowlock::torture {
namespace {

/// Of the workloads whose histories say enough.
class no_ledger final : public ledger {
 public:
  std::unique_ptr<section> open(std::string const&, lock_manager&) override {
    class idle final : public section {
      void run(held_lock&, std::uint32_t, std::function<void()> const& think, std::function<void()> const&,
               std::function<void()> const&) override {
        think();
      }
    };
    return std::make_unique<idle>();
  }
  sums read() override { return {}; }
};

/// In memory that all clients share: nothing refuses a late write.
class ledger_in_memory final : public ledger {
 public:
  explicit ledger_in_memory(int names) : names_(static_cast<std::size_t>(names)) {
    void* const at = ::mmap(nullptr, size(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
    entries_ = static_cast<entry*>(at);
    for (std::size_t i = 0; i < names_; ++i) new (entries_ + i) entry;
  }
  ledger_in_memory(ledger_in_memory const&) = delete;
  ledger_in_memory& operator=(ledger_in_memory const&) = delete;
  ~ledger_in_memory() override { ::munmap(entries_, size()); }

  std::unique_ptr<section> open(std::string const&, lock_manager&) override {
    return std::make_unique<adds>(entries_);
  }
  sums read() override {
    sums all;
    for (std::size_t i = 0; i < names_; ++i) {
      all.added += entries_[i].added.load();
      all.lost += entries_[i].added.load() - entries_[i].total.load();
    }
    return all;
  }

 private:
  struct entry {
    std::atomic<std::int64_t> added{0};
    std::atomic<std::int64_t> total{0};
  };
  class adds final : public section {
   public:
    explicit adds(entry* all) : all_(all) {}
    void run(held_lock&, std::uint32_t name, std::function<void()> const& think, std::function<void()> const&,
             std::function<void()> const&) override {
      auto& mine = all_[name];
      auto const total = mine.total.load();
      think();
      mine.total.store(total + 1);
      ++mine.added;
    }

   private:
    entry* all_;
  };
  std::size_t size() const noexcept { return names_ * sizeof(entry); }

  std::size_t names_;
  entry* entries_;
};

}  // namespace

void section::lock_and_run(std::string const&, std::uint32_t, std::function<void()> const&,
                           std::function<void()> const&) {
  throw std::logic_error("this section needs somebody else's lock");
}

std::vector<violation> violations_of(sums const& s) {
  std::vector<violation> all;
  if (s.lost > 0)
    all.push_back(
        {"guard",
         fmt::format("{} of {} additions are lost, though each had or required the lock", s.lost, s.added),
         {}});
  if (s.committed > s.added)
    all.push_back(
        {"guard",
         fmt::format("{} additions were said to be committed, and only {} are there", s.committed, s.added),
         {}});
  return all;
}

std::unique_ptr<ledger> make_ledger(options const& o) {
  if (o.what == workload::memory_set) return std::make_unique<ledger_in_memory>(o.names);
  if (writes_to_database(o.what)) return make_ledger_in_database(o);
  return std::make_unique<no_ledger>();
}

}  // namespace rowlock::torture
