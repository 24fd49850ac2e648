#include "backend/postgresql/host_names.hpp"

#include <algorithm>
#include <optional>
#include <rowlock/error.hpp>
#include <utility>

#include "base/boot_waiter.hpp"
#include "base/process_end.hpp"

namespace rowlock::backend::postgresql {
namespace {

// '/' begins a Unix socket's path, '@' an abstract socket. An empty host is libpq's default.
bool is_name(endpoint const& place) {
  return place.hostaddr.empty() && !place.host.empty() && place.host[0] != '/' && place.host[0] != '@';
}

bool known(lookup const* name) { return name == nullptr || name->is_answered(); }

}  // namespace

host_names::host_names(endpoints all, std::string where) : where_(std::move(where)) {
  for (auto& place : all) {
    auto name = is_name(place) ? look_up(place.host) : nullptr;
    hosts_.push_back({std::move(place), std::move(name)});
  }
}

bool host_names::any_known() const {
  return std::any_of(hosts_.begin(), hosts_.end(), [](one const& h) {
    return known(h.name.get()) && (h.name == nullptr || !h.name->addresses().empty());
  });
}

void host_names::wait(boot_time_point deadline) const {
  auto const now = boot_clock::now();
  // A host that can be tried waits only briefly for the other names.
  auto const until = now + std::max(deadline - now, {}) / (2 * std::max<std::ptrdiff_t>(left(), 1));
  std::optional<base::boot_waiter> waiter;
  for (;;) {
    std::vector<int> asked;
    for (auto const& h : hosts_)
      if (!known(h.name.get())) asked.push_back(h.name->answered().fd());
    auto const limit = any_known() ? until : deadline;
    if (asked.empty() || boot_clock::now() >= limit) return;
    if (!waiter) waiter.emplace();
    waiter->wait_until(limit, asked);
    base::stay_out_of_ended_drivers();
  }
}

endpoints host_names::take_known(boot_time_point deadline) {
  wait(deadline);
  endpoints out;
  auto problem = no_address(hosts_.front().place.host, where_);
  std::erase_if(hosts_, [&](one const& h) {
    if (!known(h.name.get())) return false;
    if (h.name == nullptr) {
      out.push_back(h.place);
      return true;
    }
    for (auto const& address : h.name->addresses())
      out.push_back({h.place.host, address == h.place.host ? "" : address, h.place.port});
    if (h.name->addresses().empty()) problem = no_address(h.place.host, where_, h.name->problem());
    return true;
  });
  if (out.empty()) throw problem;
  return out;
}

}  // namespace rowlock::backend::postgresql
