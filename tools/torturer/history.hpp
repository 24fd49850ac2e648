#pragma once
// What clients write down while they are tortured: a record for each thing that happens, in a file of each
// process's own. A process that is killed leaves whole records.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace rowlock::torture {

enum class happening : std::uint32_t {
  asks,        ///< a thread begins to wait for a lock
  got,         ///< and has it
  got_none,    ///< and was refused, in time
  failed,      ///< and was told of an error; in doubt or not, it has nothing
  trusts,      ///< the term was renewed: trusted_until is new
  lost,        ///< the library said so
  gives_back,  ///< a thread begins to
  gave_back,   ///< text: the release_result
  fault,       ///< a fault begins; text: its name; process: whom it hits, or everybody
  mended,      ///< and ends
  died,        ///< process was killed in this life: it does nothing after that
  deed,        ///< somebody does something to the database that must not disturb anybody; text: what
  away,        ///< failed, because the database was not there, or did not serve
};
char const* to_string(happening) noexcept;

/// Of a fault that hits everybody.
constexpr std::uint32_t everybody = 0xffffffff;

struct record {
  std::int64_t at = 0;             ///< boot clock, nanoseconds: one clock for all processes of a machine
  std::int64_t trusted_until = 0;  ///< on the same clock; 0: there is no trust (row_lock)
  std::int64_t token = 0;
  std::int64_t units = 0;  ///< that it holds; a mutex holds all that there are
  happening what{};
  std::uint32_t process = 0;  ///< the seat
  std::uint32_t life = 0;     ///< how often the seat's process was killed before
  std::uint32_t thread = 0;
  std::uint32_t name = 0;  ///< the number of the lock
  std::uint32_t turn = 0;  ///< of the thread
  char term[40] = {};
  char text[32] = {};

  void set_term(std::string_view t) noexcept { copy(t, term, sizeof term); }
  void set_text(std::string_view t) noexcept { copy(t, text, sizeof text); }

 private:
  static void copy(std::string_view from, char* to, std::size_t room) noexcept {
    for (std::size_t i = 0; i + 1 < room && i < from.size(); ++i) to[i] = from[i];
  }
};
static_assert(sizeof(record) == 128 && std::is_trivially_copyable_v<record>);

std::int64_t now() noexcept;

/// Appends to one file. Thread-safe: a record is one write(2).
class history_writer {
 public:
  /// @throws std::system_error
  explicit history_writer(std::filesystem::path const&);
  history_writer(history_writer const&) = delete;
  history_writer& operator=(history_writer const&) = delete;
  ~history_writer();
  /// Sets `at` unless it is set. @throws std::system_error if the disk is full: what is not written down
  /// can't be judged
  void write(record) const;

 private:
  int fd_;
};

/// All files of a folder, in the order of time. @throws std::runtime_error for a file that is none
std::vector<record> read_history(std::filesystem::path const& folder);

}  // namespace rowlock::torture
