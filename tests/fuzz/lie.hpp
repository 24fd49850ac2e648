#pragma once
// One server, whose bytes a run chooses: sound replies but for one.

#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "fuzz/bytes.hpp"

namespace rowlock::fuzz {

/// What a server says in the place of one reply. The first byte chooses which: 'A' is the greeting. The
/// second byte chooses how, and the others say what:
/// - '0': they are the reply.
/// - '1': they change the sound reply, four at a time: two for the place, one for what is done there, one for
///   the byte that is put or added. What is done: 0 put, 1 add, 2 take out, 3 cut.
/// - '2': they follow the sound reply.
/// - '3': they are messages. A byte tells how long each is, and `frame` puts the protocol's head before it.
class lie {
 public:
  using framing = std::string (*)(std::string_view message, int number);

  lie(bytes in, framing frame)
      : which_(static_cast<std::uint8_t>(in.next() - 'A') % 24),
        how_(static_cast<std::uint8_t>(in.next() - '0') % 4),
        with_(in.rest()),
        frame_(frame) {}

  /// Thread-safe: a client may connect once more.
  std::string instead_of(std::string_view sound) {
    std::lock_guard const guard(mutex_);
    if (sound.empty() || said_++ != which_) return std::string(sound);
    bytes in({reinterpret_cast<std::uint8_t const*>(with_.data()), with_.size()});
    if (how_ == 0) return with_;
    if (how_ == 1) return edited(std::string(sound), in);
    if (how_ == 2) return std::string(sound) + with_;
    std::string out;
    for (int number = which_ == 0 ? 0 : which_ == 1 ? 2 : 1; !in.empty(); ++number)
      out += frame_(in.text(in.next()), number);
    return out;
  }

  bool done() {
    std::lock_guard const guard(mutex_);
    return said_ > which_;
  }

 private:
  static std::string edited(std::string text, bytes in) {
    while (!in.empty()) {
      std::size_t const low = in.next();
      auto const at = (low | std::size_t{in.next()} << 8U) % (text.size() + 1);
      auto const what = in.next() % 4;
      auto const with = static_cast<char>(in.next());
      if (what == 0 && at < text.size()) text[at] = with;
      if (what == 1) text.insert(at, 1, with);
      if (what == 2 && at < text.size()) text.erase(at, 1);
      if (what == 3) text.resize(at);
    }
    return text;
  }

  std::mutex mutex_;
  int const which_;
  int const how_;
  std::string const with_;
  framing const frame_;
  int said_ = 0;
};

}  // namespace rowlock::fuzz
