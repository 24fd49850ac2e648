#pragma once
// The hosts that a connection string names, with their addresses: libpq would look names up by itself, for as
// long as the system's resolver likes, and would wait at a silent address for as long as it may.

#include <memory>
#include <rowlock/types.hpp>
#include <string>
#include <vector>

#include "backend/resolver.hpp"

namespace rowlock::backend::postgresql {

/// One of libpq's lists of hosts. With both a host and an address, libpq goes to the address, and takes the
/// host for everything else: certificates, passwords, Kerberos.
struct endpoint {
  std::string host, hostaddr, port;
};
using endpoints = std::vector<endpoint>;

class host_names {
 public:
  /// Asks for all of them at once. @throws error
  host_names(endpoints all, std::string where);

  /// Those whose addresses are known, each by each of its addresses; left() are the others. If it is not the
  /// first time, without those that were taken. Waits for some time until all are known, and until the
  /// deadline until one is.
  /// @throws error(errc::unreachable) if none is
  endpoints take_known(boot_time_point deadline);
  /// How many are still looked up.
  std::ptrdiff_t left() const noexcept { return std::ssize(hosts_); }

 private:
  struct one {
    endpoint place;
    std::shared_ptr<lookup const> name;  ///< null: there is nothing to look up
  };
  bool any_known() const;
  void wait(boot_time_point deadline) const;

  std::string where_;
  std::vector<one> hosts_;
};

}  // namespace rowlock::backend::postgresql
