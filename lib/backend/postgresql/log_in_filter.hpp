#pragma once
// libpq sends the password to whatever answers, in clear or as MD5 if it is asked to (require_auth came with
// libpq 16). So what a server says during the log-in is read before libpq reads it; lib/doc/wire.md.

#include <cstddef>
#include <rowlock/error.hpp>
#include <stdexcept>
#include <string>
#include <string_view>

namespace rowlock::backend::postgresql {

/// The server asks for what it must not get, or lies. what() is the end of a message.
class log_in_refused : public std::runtime_error {
 public:
  log_in_refused(errc reason, std::string const& what) : std::runtime_error(what), reason_(reason) {}
  errc reason() const noexcept { return reason_; }

 private:
  errc reason_;
};

/// Follows a log-in's two streams as long as they are in clear. Knows no sockets.
class log_in_filter {
 public:
  /// What libpq has sent.
  void sent(std::string_view);
  /// What has come. @return how much of it libpq may have: whole messages
  /// @throws log_in_refused
  std::string received(std::string_view);
  /// From now on everything is encrypted by libpq.
  bool encrypted() const noexcept { return state_ == state::encrypted; }

  /// The same for what came encrypted: nothing is held back.
  void decrypted(std::string_view);

 private:
  enum class state { first_words, asked_for_encryption, talking, encrypted, doomed };
  std::string whole_messages();
  void look_at(char type, std::string_view body);

  state state_ = state::first_words;
  std::string from_client_;
  std::string from_server_;
  std::size_t total_ = 0;
  int messages_ = 0;
  bool logged_in_ = false;
};

}  // namespace rowlock::backend::postgresql
