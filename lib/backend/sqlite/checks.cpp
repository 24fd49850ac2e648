#include <fmt/format.h>
#include <linux/magic.h>

#include <algorithm>
#include <array>
#include <thread>

#include "backend/sqlite/checks.hpp"
#include "backend/sqlite/file_identity.hpp"
#include "backend/sqlite/native.hpp"
#include "backend/sqlite/wal_files.hpp"
#include "backend/sqlite/wal_readers.hpp"
#include "base/text.hpp"

namespace rowlock::backend::sqlite {

using namespace std::chrono_literals;

namespace {

struct shared_kind {
  std::uint64_t magic;
  char const* name;
};

// Those that <linux/magic.h> lacks are in statfs(2).
constexpr std::array<shared_kind, 13> shared_kinds{{{NFS_SUPER_MAGIC, "NFS"},
                                                    {SMB_SUPER_MAGIC, "SMB"},
                                                    {CIFS_SUPER_MAGIC, "CIFS"},
                                                    {SMB2_SUPER_MAGIC, "SMB"},
                                                    {0x65735546, "FUSE"},
                                                    {V9FS_MAGIC, "9p"},
                                                    {AFS_SUPER_MAGIC, "AFS"},
                                                    {0x6B414653, "AFS"},
                                                    {CODA_SUPER_MAGIC, "Coda"},
                                                    {CEPH_SUPER_MAGIC, "Ceph"},
                                                    {0x01161970, "GFS2"},
                                                    {0x0BD00BD0, "Lustre"},
                                                    {0x786f4256, "a folder of VirtualBox's host"}}};

bool is_wal(examiner& x) { return x.known("doctor_session")["journal_mode"] == "wal"; }

}  // namespace

opinion judge_file_system(std::uint64_t kind, bool wal) {
  auto const* found = std::find_if(shared_kinds.begin(), shared_kinds.end(),
                                   [&](auto const& one) { return one.magic == kind; });
  if (found == shared_kinds.end()) return {verdict::ok, "a file system of this machine's"};
  auto const remedy =
      "Put the file on a disk of this machine's, or use a server: programs on several hosts need one.";
  if (wal)
    return {
        verdict::error,
        fmt::format("the file is on {}: in WAL mode, programs on different hosts would not see each other's "
                    "locks, and spoil the file",
                    found->name),
        remedy};
  return {verdict::warning,
          fmt::format("the file is on {}, whose locks of files can't be relied on everywhere", found->name),
          remedy};
}

std::optional<opinion> file_system(examiner& x) {
  auto const kind = x.session().facts().file_system;
  if (!kind) return opinion{verdict::unknown, "the system does not tell"};
  return judge_file_system(*kind, is_wal(x));
}

std::optional<opinion> writable(examiner& x) {
  auto const refused = refused_writes(x);
  if (!refused) return opinion{verdict::ok, "the file takes writes"};
  return opinion{refused->result, refused->why, "Make the file and its folder writable for this user."};
}

// Without this check, one that meets the damage would be undecided, and the others ok.
std::optional<opinion> damage(examiner& x) {
  for (auto const* what : {"meta", "locks", "tokens", "permits"}) {
    auto const table = x.options().table_prefix + what;
    std::string said;
    try {
      auto const found = x.ask("doctor_damage", {table}).rows.at(0);
      if (as_text(found.at(0)) != "ok")
        said = fmt::format("{}: {}", as_text(found.at(1)), as_text(found.at(0)));
    } catch (error const& e) {
      if (e.reason() == errc::schema_missing) continue;  // check `schema` says so
      if (!is_damage(e.native_code())) throw;
      said = base::plain_message(e);
    }
    if (!said.empty())
      return opinion{verdict::error, fmt::format("the file is damaged, in table {}: {}", table, said),
                     "See why: another program, the disk. Restore it, or move it away with the files -wal "
                     "and -shm beside "
                     "it, and rowlock migrate up makes a new one, which knows of no locks and tokens."};
  }
  return opinion{verdict::ok, "the tables can be read whole"};
}

std::optional<opinion> durability(examiner& x) {
  auto const& session = x.known("doctor_session");
  auto const& mode = session["journal_mode"];
  auto const found = fmt::format("journal_mode = {}, synchronous = {}", mode, session["synchronous"]);
  bool const less = x.session().facts().flushes_less && mode == "wal";
  if (session.number("synchronous") < (less ? 1 : 2))
    return opinion{verdict::error, found + ": a power cut may undo what was acknowledged",
                   "Leave PRAGMA synchronous alone on the connections that are handed to rowlock."};
  if (mode == "off" || mode == "memory")
    return opinion{verdict::error, found + ": a crash in the midst of a write spoils the file",
                   "PRAGMA journal_mode = WAL"};
  if (mode != "wal")
    return opinion{verdict::warning, found + ": durable, but readers and writers keep each other waiting",
                   "PRAGMA journal_mode = WAL"};
  return opinion{verdict::ok, found + (less ? ": what can outlive its process is flushed"
                                            : ": each take and renewal is flushed")};
}

// Two looks: a short read is harmless.
std::optional<opinion> wal(examiner& x) {
  auto const& file = x.known("doctor_session")["file"];
  auto const found = look_at(file + "-wal");
  if (!found || found->size <= large_wal) return std::nullopt;
  auto readers = wal_readers(file);
  std::this_thread::sleep_for(1s);
  auto const later = wal_readers(file);
  std::erase_if(readers,
                [&](auto const& one) { return std::find(later.begin(), later.end(), one) == later.end(); });
  auto const size = fmt::format("{}-wal has {} MB", file, found->size >> 20);
  if (readers.empty())
    return opinion{verdict::ok,
                   size + ", and no reader is seen that keeps it from being emptied: the next lock does it"};
  return opinion{
      verdict::warning,
      fmt::format("{}, and can't be emptied: {} reads the database without end", size, to_string(readers)),
      "End that transaction: with each lock that is taken the WAL grows, until the disk is full."};
}

std::optional<opinion> index(examiner& x) {
  for (auto const* what : {"locks", "tokens"}) {
    auto const found = x.table(what);
    if (!found || as_int(found->at(0)) == 0)
      return opinion{verdict::error,
                     fmt::format("no index makes sure that a name is in {}{} only once, byte for byte",
                                 x.options().table_prefix, what),
                     "rowlock migrate validate tells what is wrong with the tables."};
  }
  auto const plan = as_text(x.ask("doctor_explain").rows.at(0).at(3));
  if (!plan.starts_with("SEARCH"))
    return opinion{verdict::error, fmt::format("a lock's row is looked for in the whole table: {}", plan),
                   "rowlock migrate validate tells what is wrong with the tables."};
  return opinion{verdict::ok, "a lock's row is found by its primary key"};
}

std::span<named_check const> checks() noexcept {
  static constexpr named_check all[] = {
      {"schema"},   {"damage", damage}, {"writable", writable},       {"durability", durability},
      {"wal", wal}, {"index", index},   {"file_system", file_system}, {"waiting"},
      {"limits"}};
  return all;
}

}  // namespace rowlock::backend::sqlite
