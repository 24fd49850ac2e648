#include "backend/resolver.hpp"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <exception>
#include <system_error>
#include <utility>

#include "base/per_process.hpp"
#include "base/process_end.hpp"

namespace rowlock::backend {
namespace {

using namespace std::chrono_literals;

// An older question might never be answered, although the resolver has recovered.
constexpr auto young = 30s;

struct free_addresses {
  void operator()(addrinfo* a) const noexcept { ::freeaddrinfo(a); }
};
using address_list = std::unique_ptr<addrinfo, free_addresses>;

int ask_system(std::string const& host, int flags, address_list& found) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* list = nullptr;
  int const result = ::getaddrinfo(host.c_str(), nullptr, &hints, &list);
  found.reset(result == 0 ? list : nullptr);
  return result;
}

/// Empty if it has no numeric form.
std::string written(addrinfo const& a) {
  std::array<char, NI_MAXHOST> text{};
  int const result =
      ::getnameinfo(a.ai_addr, a.ai_addrlen, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST);
  return result == 0 ? text.data() : "";
}

// Alternates, because often all addresses of one kind are unreachable. The system chooses the first kind.
std::vector<std::string> in_turn(addrinfo const* list) {
  std::array<std::vector<std::string>, 2> kinds;
  for (auto const* a = list; a != nullptr; a = a->ai_next) {
    auto& kind = kinds[a->ai_family == list->ai_family ? 0 : 1];
    if (auto text = written(*a); !text.empty() && std::find(kind.begin(), kind.end(), text) == kind.end())
      kind.push_back(std::move(text));
  }
  std::vector<std::string> out;
  for (std::size_t i = 0; i < std::max(kinds[0].size(), kinds[1].size()); ++i)
    for (auto& kind : kinds)
      if (i < kind.size()) out.push_back(std::move(kind[i]));
  return out;
}

bool is_address(std::string const& host) {
  address_list found;
  return ask_system(host, AI_NUMERICHOST, found) == 0;
}

}  // namespace

bool lookup::is_answered() const noexcept { return base::wait_for(answered_, boot_time_point{}); }

void lookup::ask(std::string const& host) noexcept {
  try {
    address_list found;
    int const result = ask_system(host, 0, found);
    int const number = errno;
    if (result == EAI_SYSTEM)
      problem_ = std::generic_category().message(number);
    else if (result != 0)
      problem_ = ::gai_strerror(result);
    else
      addresses_ = in_turn(found.get());
  } catch (std::exception const&) {  // no memory
    addresses_.clear();
  }
  answered_.set();
}

std::shared_ptr<lookup const> resolver::look_up(std::string const& host) {
  auto fresh = std::make_shared<lookup>();
  if (is_address(host)) {
    fresh->addresses_.push_back(host);
    fresh->answered_.set();
    return fresh;
  }
  std::lock_guard const guard(mutex_);
  auto const known = under_way_.find(host);
  if (known != under_way_.end() && fresh->begun_ - known->second->begun_ < young) return known->second;
  if (!threads_.run([this, host, fresh] { answer(host, fresh); }, base::task_queue::kind::may_be_dropped))
    throw std::system_error(EAGAIN, std::generic_category(), "a thread that looks up names");
  return under_way_[host] = std::move(fresh);
}

void resolver::answer(std::string const& host, std::shared_ptr<lookup> const& asked) {
  asked->ask(host);
  std::lock_guard const guard(mutex_);
  auto const known = under_way_.find(host);
  if (known != under_way_.end() && known->second == asked) under_way_.erase(known);
}

std::shared_ptr<lookup const> look_up(std::string const& host) try {
  return base::per_process<resolver>().look_up(host);
} catch (std::system_error const& e) {
  throw error(errc::unreachable,
              fmt::format("the address of host {} can't be looked up: {}", host, e.what()));
}

error no_address(std::string const& host, std::string const& where, std::string const& problem) {
  return {errc::unreachable,
          fmt::format("{}: the address of host {} is not known: {}", where, host,
                      problem.empty() ? "the system's resolver did not answer in time" : problem)};
}

std::vector<std::string> addresses_of(std::string const& host, std::string const& where,
                                      boot_time_point deadline) {
  auto const asked = look_up(host);
  bool const answered = base::wait_for(asked->answered(), deadline);
  base::stay_out_of_ended_drivers();
  if (!answered || asked->addresses().empty())
    throw no_address(host, where, answered ? asked->problem() : "");
  return asked->addresses();
}

}  // namespace rowlock::backend
