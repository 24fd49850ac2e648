#pragma once
// The hosts of a connection string, with their addresses. libpq would look names up without a deadline, and
// wait too long at a silent address.

#include <memory>
#include <rowlock/types.hpp>
#include <string>
#include <vector>

#include "backend/resolver.hpp"

namespace rowlock::backend::postgresql {

/// One of libpq's hosts. With both host and address, libpq connects to the address, and uses the host for
/// certificates, passwords and Kerberos.
struct endpoint {
  std::string host, hostaddr, port;
};
using endpoints = std::vector<endpoint>;

class host_names {
 public:
  /// Starts all look-ups. @throws error
  host_names(endpoints all, std::string where);

  /// Takes out the hosts with known addresses, with an entry for each address. Waits until the deadline for
  /// the first host, and a part of that time for all.
  /// @throws error(errc::unreachable) if no address is known
  endpoints take_known(boot_time_point deadline);
  /// Hosts whose look-up is still under way.
  std::ptrdiff_t left() const noexcept { return std::ssize(hosts_); }

 private:
  struct one {
    endpoint place;
    std::shared_ptr<lookup const> name;  ///< null: no look-up needed
  };
  bool any_known() const;
  void wait(boot_time_point deadline) const;

  std::string where_;
  std::vector<one> hosts_;
};

}  // namespace rowlock::backend::postgresql
