#include "manager/identity.hpp"

#include <unistd.h>

#include <array>
#include <atomic>

#include "base/per_process.hpp"
#include "base/random_id.hpp"

namespace rowlock::managing {
namespace {

struct process_identity {
  std::string host = [] {
    std::array<char, 256> name{};
    return ::gethostname(name.data(), name.size() - 1) == 0 ? std::string(name.data())
                                                            : std::string("unknown");
  }();
  std::int64_t pid = ::getpid();
  std::string id = base::random_id();
};

std::int64_t fresh_number() noexcept {
  static std::atomic<std::int64_t> last{0};
  return ++last;
}

}  // namespace

std::int64_t this_thread_number() noexcept {
  thread_local std::int64_t const number = fresh_number();
  return number;
}

owner_id this_thread_owner() {
  auto const& self = base::per_process<process_identity>();
  return {self.host, self.pid, self.id, this_thread_number()};
}

owner_id fresh_owner() {
  auto const& self = base::per_process<process_identity>();
  return {self.host, self.pid, self.id, fresh_number()};
}

owner_id explicit_owner(std::string const& text) {
  auto const& self = base::per_process<process_identity>();
  return {self.host, self.pid, text, 0};
}

}  // namespace rowlock::managing
