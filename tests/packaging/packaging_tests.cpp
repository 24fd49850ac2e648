#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "support/child_process.hpp"
#include "support/source_path.hpp"
#include "support/support.hpp"

namespace rowlock::test {
namespace {

namespace fs = std::filesystem;

std::string const sources = source_path();

struct outcome {
  int status = 0;
  std::string output;
  bool has(std::string const& text) const { return output.find(text) != std::string::npos; }
};

/// What a shell makes of it, stderr included.
outcome shell(std::string const& command) {
  child_process process({"/bin/sh", "-c", "exec 2>&1; " + command});
  outcome o;
  o.status = process.finish();
  o.output = process.output();
  return o;
}

/// The same, which must succeed.
std::string done(std::string const& command) {
  auto const o = shell(command);
  REQUIRE_MESSAGE(o.status == 0, command << "\n" << o.output);
  return o.output;
}

/// Something installed into a folder of a case's own.
class installation {
 public:
  enum class from { build, packages };

  /// A build, by cmake --install; or all its Debian packages, made and then unpacked.
  explicit installation(std::string const& build, from way = from::build) {
    if (way == from::build) {
      done(fmt::format("'{}' --install '{}' --prefix '{}'", ROWLOCK_CMAKE, build, prefix()));
    } else {
      done(
          fmt::format("cd '{0}' && '{1}' -B '{0}/debs' --config '{2}/CPackConfig.cmake' && "
                      "for deb in debs/*.deb; do dpkg-deb -x $deb root || exit; done",
                      folder_.path().string(), ROWLOCK_CPACK, build));
      prefix_ = file("root/usr");
    }
    for (auto const& entry : fs::recursive_directory_iterator(prefix()))
      if (entry.path().filename() == "rowlock.pc") library_ = entry.path().parent_path().parent_path();
    REQUIRE_FALSE(library_.empty());
  }

  std::string prefix() const { return prefix_; }
  std::string file(std::string const& name) const { return folder_.file(name); }
  std::string lib_folder() const { return library_.string(); }
  std::string with_libraries() const { return "LD_LIBRARY_PATH='" + lib_folder() + "' "; }

  /// What CMake says to a project that uses one component, built in file("build").
  outcome configure(std::string const& component, std::string const& source,
                    std::string const& more = {}) const {
    return shell(fmt::format(
        "'{}' -S '{}/tests/packaging/installed' -B '{}' -G Ninja -D CMAKE_CXX_COMPILER='{}' "
        "-D CMAKE_CXX_COMPILER_LAUNCHER='{}' -D CMAKE_PREFIX_PATH='{}' -D component={} -D source='{}' {}",
        ROWLOCK_CMAKE, sources, file("build"), ROWLOCK_CXX, ROWLOCK_CXX_LAUNCHER, prefix(), component, source,
        more));
  }
  /// The same, and builds it. @return the program
  std::string build(std::string const& component, std::string const& more = {}) const {
    auto const o = configure(component, source_for(component), more);
    REQUIRE_MESSAGE(o.status == 0, o.output);
    done(fmt::format("'{}' --build '{}'", ROWLOCK_CMAKE, file("build")));
    return file("build/consumer");
  }
  /// The same with pkg-config and one call of the compiler.
  std::string compile(std::string const& component, std::string const& options,
                      std::string const& also = {}) const {
    return compile_source(source_for(component), "rowlock-" + component, options, also);
  }
  std::string compile_source(std::string const& source, std::string const& packages,
                             std::string const& options, std::string const& also) const {
    done(
        fmt::format("PKG_CONFIG_PATH='{}/pkgconfig' && export PKG_CONFIG_PATH && "
                    "flags=$('{}' --cflags --libs {} {}) && "
                    "{} '{}' -std=c++20 -o '{}' '{}' {} $flags",
                    lib_folder(), ROWLOCK_PKG_CONFIG, options, packages, ROWLOCK_CXX_LAUNCHER, ROWLOCK_CXX,
                    file("consumer"), source, also));
    return file("consumer");
  }

  std::string ask(std::string const& pkg_config_options) const {
    auto text = done(fmt::format("PKG_CONFIG_PATH='{}/pkgconfig' '{}' {}", lib_folder(), ROWLOCK_PKG_CONFIG,
                                 pkg_config_options));
    return text.substr(0, text.find_last_not_of(" \n") + 1);
  }

  static std::string source_for(std::string const& component) {
    return sources + "/tests/linking/only_" + component + ".cpp";
  }

 private:
  scratch_folder folder_;
  std::string prefix_ = folder_.file("prefix");
  fs::path library_;
};

std::string const without_others =
    "-D CMAKE_DISABLE_FIND_PACKAGE_PostgreSQL=ON -D CMAKE_DISABLE_FIND_PACKAGE_MySQLConnectorCpp=ON "
    "-D CMAKE_DISABLE_FIND_PACKAGE_uriparser=ON -D CMAKE_DISABLE_FIND_PACKAGE_nlohmann_json=ON";

/// The program takes a lock and shows what is mapped into it.
void check_only_sqlite(installation const& there, std::string const& program) {
  auto const o = shell(there.with_libraries() + "'" + program + "' '" + there.file("locks.db") + "'");
  CHECK_MESSAGE(o.status == 0, o.output);
  CHECK(o.has("libsqlite3"));
  CHECK_FALSE(o.has("libpq"));
  CHECK_FALSE(o.has("libmysqlcppconn"));
}

TEST_CASE("installed, static <sqlite>: find_package() with its component asks for no other driver") {
  installation const there(ROWLOCK_STATIC_BUILD);
  auto const program = there.build("sqlite", without_others);
  check_only_sqlite(there, program);
  CHECK_FALSE(shell(there.with_libraries() + "ldd '" + program + "'").has("librowlock"));
}

TEST_CASE("installed, shared <sqlite>: find_package() with its component asks for no other driver") {
  installation const there(ROWLOCK_SHARED_BUILD);
  auto const program = there.build("sqlite", without_others + " -D CMAKE_DISABLE_FIND_PACKAGE_fmt=ON");
  check_only_sqlite(there, program);
  auto const linked = shell(there.with_libraries() + "ldd '" + program + "'");
  CHECK(linked.has("librowlock-sqlite.so.0 => " + there.lib_folder()));
  CHECK(linked.has("librowlock-core.so.0 => " + there.lib_folder()));
  CHECK_FALSE(linked.has("librowlock.so"));
}

TEST_CASE("installed, static <postgresql>: find_package() finds libpq, and says so if it can't") {
  installation const there(ROWLOCK_STATIC_BUILD);
  auto const o = shell("'" + there.build("postgresql") + "' dbname=nowhere");
  CHECK(o.status == 0);
  CHECK(o.has("libpq"));
  auto const missing = there.configure("postgresql", there.source_for("postgresql"), without_others);
  CHECK(missing.status != 0);
  CHECK(missing.has("PostgreSQL"));
}

TEST_CASE("installed, static <mysql>: find_package() finds Connector/C++ by the module that came along") {
  installation const there(ROWLOCK_STATIC_BUILD);
  auto const o = shell("'" + there.build("mysql") + "' mysql://u@nowhere/nothing");
  CHECK(o.status == 0);
  CHECK(o.has("libmysqlcppconn"));
  CHECK_FALSE(o.has("libpq"));
}

// The program has SOCI's own libraries from where it has them today.
TEST_CASE(
    "installed, static <soci>: find_package() and pkg-config have all that it takes but SOCI's back end") {
  installation const there(ROWLOCK_STATIC_BUILD);
  auto const run = [&](std::string const& program) {
    return shell("'" + program + "' '" + there.file("locks.db") + "'");
  };
  auto const o = run(there.build("soci", "-D also=soci_sqlite3"));
  CHECK_MESSAGE(o.status == 0, o.output);
  CHECK(o.has("libsoci_core"));
  CHECK(run(there.compile("soci", "", "-lsoci_sqlite3")).status == 0);
}

TEST_CASE("installed, shared <soci>: find_package() and pkg-config name our libraries alone") {
  installation const there(ROWLOCK_SHARED_BUILD);
  auto const run = [&](std::string const& program) {
    return shell(there.with_libraries() + "'" + program + "' '" + there.file("locks.db") + "'");
  };
  auto const o = run(there.build("soci", without_others + " '-D also=soci_sqlite3;soci_core'"));
  CHECK_MESSAGE(o.status == 0, o.output);
  CHECK(o.has("librowlock-soci"));
  CHECK(run(there.compile("soci", "", "-lsoci_sqlite3 -lsoci_core")).status == 0);
}

TEST_CASE("installed, shared <postgresql>: find_package() needs nothing of libpq's") {
  installation const there(ROWLOCK_SHARED_BUILD);
  auto const o =
      shell(there.with_libraries() + "'" + there.build("postgresql", without_others) + "' dbname=nowhere");
  CHECK(o.status == 0);
  CHECK(o.has("libpq"));
}

TEST_CASE(
    "installed <sqlite>: the README's example is built with component rowlock, and opens databases by URL") {
  for (std::string const build : {ROWLOCK_STATIC_BUILD, ROWLOCK_SHARED_BUILD}) {
    installation const there(build);
    auto const configured = there.configure("rowlock", ROWLOCK_README_SOURCE);
    REQUIRE_MESSAGE(configured.status == 0, configured.output);
    done(fmt::format("'{}' --build '{}'", ROWLOCK_CMAKE, there.file("build")));
    auto const url = "'sqlite:" + there.file("locks.db") + "'";
    done(there.with_libraries() + "'" + there.prefix() + "/bin/rowlock' --db " + url + " migrate up");
    CHECK(shell(there.with_libraries() + there.file("build/consumer") + " " + url).has("mine, token drawn"));
  }
}

TEST_CASE("installed: a component that is not there is named, with those that are") {
  installation const there(ROWLOCK_STATIC_BUILD);
  auto const o = there.configure("oracle", there.source_for("sqlite"));
  CHECK(o.status != 0);
  auto const text = std::regex_replace(o.output, std::regex("\\s+"), " ");
  CHECK_MESSAGE(
      text.find("this rowlock has no component 'oracle': it was built with core, quorum, sqlite, postgresql, "
                "mysql, soci, rowlock") != text.npos,
      o.output);
}

TEST_CASE(
    "installed, static <sqlite>: pkg-config says all that it takes to link, with and without --static") {
  installation const there(ROWLOCK_STATIC_BUILD);
  check_only_sqlite(there, there.compile("sqlite", ""));
  CHECK(shell("'" + there.compile("sqlite", "--static") + "' '" + there.file("locks.db") + "'").status == 0);
}

TEST_CASE("installed, shared <sqlite>: pkg-config names our libraries alone") {
  installation const there(ROWLOCK_SHARED_BUILD);
  check_only_sqlite(there, there.compile("sqlite", ""));
  CHECK(there.ask("--libs-only-l rowlock-sqlite") == "-lrowlock-sqlite -lrowlock-core");
  CHECK(there.ask("--modversion rowlock") == ROWLOCK_VERSION);
}

TEST_CASE("installed, static: pkg-config has every back end and its driver") {
  installation const there(ROWLOCK_STATIC_BUILD);
  auto const libs = there.ask("--libs-only-l rowlock") + " ";
  for (std::string const one :
       {"-lrowlock ", "-lrowlock-core ", "-lrowlock-quorum ", "-lrowlock-sqlite ", "-lrowlock-postgresql ",
        "-lrowlock-mysql ", "-lrowlock-soci ", "-lsoci_core ", "-lsqlite3 ", "-lpq ", "-lmysqlcppconn ",
        "-luriparser ", "-lfmt "})
    CHECK_MESSAGE(libs.find(one) != libs.npos, one << " in " << libs);
}

TEST_CASE(
    "not installed <sqlite>: FetchContent and add_subdirectory build it along, and install nothing of it") {
  scratch_folder const folder;
  auto const build = folder.file("build");
  done(fmt::format(
      "'{}' -S '{}/tests/packaging/subdirectory' -B '{}' -G Ninja -D CMAKE_CXX_COMPILER='{}' "
      "-D CMAKE_CXX_COMPILER_LAUNCHER='{}' -D rowlock_source='{}' -D source='{}' -D ROWLOCK_POSTGRESQL=OFF "
      "-D ROWLOCK_MYSQL=OFF -D ROWLOCK_SOCI=OFF -D CMAKE_UNITY_BUILD=ON",
      ROWLOCK_CMAKE, sources, build, ROWLOCK_CXX, ROWLOCK_CXX_LAUNCHER, sources,
      installation::source_for("sqlite")));
  done(fmt::format("'{}' --build '{}'", ROWLOCK_CMAKE, build));
  CHECK(shell("'" + build + "/consumer' '" + folder.file("locks.db") + "'").has("libsqlite3"));
  done(fmt::format("'{}' --install '{}' --prefix '{}'", ROWLOCK_CMAKE, build, folder.file("prefix")));
  CHECK(done("cd '" + folder.file("prefix") + "' && find . -type f") == "./bin/consumer\n");
}

TEST_CASE("installed: every public header is there") {
  installation const there(ROWLOCK_SHARED_BUILD);
  std::set<std::string> ours, theirs;
  for (auto const& entry : fs::directory_iterator(sources + "/lib/include/rowlock"))
    ours.insert(entry.path().filename());
  for (auto const& entry : fs::directory_iterator(there.prefix() + "/include/rowlock"))
    theirs.insert(entry.path().filename());
  CHECK(ours == theirs);
}

TEST_CASE("C99: a build for another architecture makes no manual pages, or makes them by an emulator") {
  scratch_folder const folder;
  auto const targets = [&](std::string const& name, std::string const& more) {
    return done(
        fmt::format("'{0}' -S '{1}' -B '{2}' -G Ninja -D CMAKE_CXX_COMPILER='{3}' -D CMAKE_SYSTEM_NAME=Linux "
                    "-D CMAKE_SYSTEM_PROCESSOR=another -D ROWLOCK_POSTGRESQL=OFF -D ROWLOCK_MYSQL=OFF -D "
                    "ROWLOCK_SOCI=OFF {4} && "
                    "'{0}' --build '{2}' --target help",
                    ROWLOCK_CMAKE, sources, folder.file(name), ROWLOCK_CXX, more));
  };
  CHECK(targets("alone", "").find("rowlock_man_pages") == std::string::npos);
  CHECK(targets("emulated", "-D CMAKE_CROSSCOMPILING_EMULATOR=/bin/emulator").find("rowlock_man_pages") !=
        std::string::npos);
  done(fmt::format(
      "printf '#!/bin/sh\\necho run >>{0}/runs; exec \"$@\"' >'{0}/emulator' && chmod +x '{0}/emulator' && "
      "'{1}/tools/man-pages' '{2}/rowlock' 1 '{0}/man' '{0}/emulator'",
      folder.path().string(), sources, ROWLOCK_STATIC_BUILD));
  CHECK(std::filesystem::exists(folder.file("man/rowlock-run.1.gz")));
  CHECK(std::filesystem::exists(folder.file("runs")));
}

/// Where the links of a text in Markdown lead, those to the web and within the text left out.
std::vector<std::string> links_of(fs::path const& text) {
  auto words = done("cat '" + text.string() + "'");
  words = std::regex_replace(words, std::regex("```[^`]*```|`[^`]*`"), "");
  std::vector<std::string> links;
  std::regex const link("\\]\\(([^)#]+)[^)]*\\)");
  for (std::sregex_iterator it(words.begin(), words.end(), link), end; it != end; ++it)
    if (!it->str(1).starts_with("http")) links.push_back(it->str(1));
  return links;
}

TEST_CASE("installed: what README.md and the guides link to is there") {
  installation const there(ROWLOCK_SHARED_BUILD);
  int links = 0;
  for (auto const& entry : fs::recursive_directory_iterator(there.prefix() + "/share/doc/rowlock")) {
    if (entry.path().extension() != ".md") continue;
    for (auto const& link : links_of(entry.path())) {
      ++links;
      CHECK_MESSAGE(fs::exists(entry.path().parent_path() / link), entry.path().string() << ": " << link);
    }
  }
  CHECK(links > 50);
}

/// The demangled names of the functions and objects of our own that a shared library shows.
std::vector<std::string> shown_by(std::string const& library) {
  std::vector<std::string> names;
  std::istringstream lines(done("nm --dynamic --defined-only --demangle '" + library + "'"));
  for (std::string line; std::getline(lines, line);) {
    auto const kind = line.find_first_of("ABDGRSTuVWi", line.find(' '));
    auto name = line.substr(kind + 2);
    for (std::string const what : {"vtable for ", "typeinfo for ", "typeinfo name for "})
      if (name.starts_with(what)) name.erase(0, what.size());
    // Instances of the standard library's templates, and a driver's exceptions, are shown whatever we say.
    for (std::string const ours : {"rowlock::", "fmt::", "nlohmann::"})
      if (name.starts_with(ours)) names.push_back(name);
  }
  return names;
}

TEST_CASE("installed, shared: the libraries show what users call, by its version, and little else") {
  installation const there(ROWLOCK_SHARED_BUILD);
  // What the back ends need of core.
  std::set<std::string> const internals{
      "rowlock::backend::connection", "rowlock::backend::source", "rowlock::backend::as_",
      "rowlock::backend::refuse_short_reply", "rowlock::base::event", "rowlock::base::boot_waiter",
      "rowlock::base::fork_epoch", "rowlock::backend::read_wire", "rowlock::backend::received_bytes",
      "rowlock::backend::wire", "rowlock::backend::caller_connection", "rowlock::base::driver_call",
      "rowlock::base::plain_message", "rowlock::base::hexadecimal", "rowlock::base::random_id",
      "rowlock::backend::table_names", "rowlock::backend::statement_book::at",
      "rowlock::base::stay_out_of_ended_drivers", "rowlock::backend::settings", "rowlock::backend::examiner",
      "rowlock::backend::tls", "rowlock::backend::refused_writes", "rowlock::backend::list_on",
      "rowlock::backend::no_address", "rowlock::backend::look_up", "rowlock::backend::lookup",
      "rowlock::backend::resolver", "rowlock::testing::probe",
      // What the quorum needs of it.
      "rowlock::managing::member", "rowlock::managing::granted_vote", "rowlock::managing::trust_of_vote",
      "rowlock::base::task_queue", "rowlock::base::serving", "rowlock::base::wait_for",
      // And SOCI's of the others.
      "rowlock::backend::postgresql::borrow", "rowlock::backend::sqlite::borrow",
      "rowlock::backend::sqlite::close_inherited", "rowlock::backend::sqlite::programs_connection",
      "rowlock::backend::mysql::source_of", "rowlock::backend::mysql::own_user"};
  int versioned = 0;
  for (std::string const name : {"rowlock-core", "rowlock-quorum", "rowlock-sqlite", "rowlock-postgresql",
                                 "rowlock-mysql", "rowlock-soci", "rowlock"}) {
    for (auto const& shown : shown_by(there.lib_folder() + "/lib" + name + ".so")) {
      bool const is_public = shown.starts_with("rowlock::") && shown.find("::v0::") != shown.npos;
      versioned += is_public ? 1 : 0;
      bool known = is_public;
      for (auto const& one : internals) known = known || shown.starts_with(one);
      CHECK_MESSAGE(known, name << " shows " << shown);
    }
  }
  CHECK(versioned > 60);
}

/// The program, its manual, completions, units and SQL are where Debian looks for them.
void check_places(installation const& there) {
  auto const share = there.prefix() + "/share";
  CHECK(shell(there.with_libraries() + "'" + there.prefix() + "/bin/rowlock' version").has(ROWLOCK_VERSION));
  CHECK(shell("MANPAGER=cat man -M '" + share + "/man' rowlock-run")
            .has("rowlock run [OPTIONS] NAME -- COMMAND"));
  for (std::string const file :
       {"/bash-completion/completions/rowlock", "/fish/vendor_completions.d/rowlock.fish",
        "/doc/rowlock/copyright", "/doc/rowlock/changelog.gz", "/doc/rowlock/changelog.Debian.gz",
        "/doc/librowlock0/copyright", "/doc/librowlock-dev/copyright",
        "/doc/rowlock/examples/rowlock-reap.cron", "/../lib/systemd/system/rowlock-reap.timer",
        "/../lib/systemd/system/rowlock-reap.service", "/../lib/systemd/system/rowlock-lead@.service"})
    CHECK_MESSAGE(fs::exists(share + file), file);
  // Installed, not enabled: that is for who has written the service's file with the database's URL.
  CHECK(shell("find '" + there.prefix() + "/..' -type l | grep -c rowlock-reap").output == "0\n");
  for (std::string const folder : {"migrations", "schema"})
    CHECK(shell("diff -r '" + sources + "/" + folder + "' '" + share + "/rowlock/" + folder + "'")
              .output.empty());
}

/// A program is built with librowlock-dev alone, and runs.
void check_development(installation const& there) {
  check_only_sqlite(there, there.build("sqlite", without_others));
  check_only_sqlite(there, there.compile("sqlite", ""));
}

/// What build.md says that a program links which uses a driver itself.
struct driver_of {
  std::string component, package, target, pkg_config, libs;
};

driver_of driver_of_example(std::string const& source) {
  auto const text = done("cat '" + source + "'");
  auto const includes = [&](char const* header) { return text.find(header) != text.npos; };
  if (includes("<libpq-fe.h>")) return {"postgresql", "PostgreSQL", "PostgreSQL::PostgreSQL", "libpq", ""};
  if (includes("<sqlite3.h>")) return {"sqlite", "SQLite3", "SQLite::SQLite3", "sqlite3", ""};
  if (includes("<mysql_driver.h>"))
    return {"mysql", "MySQLConnectorCpp", "MySQLConnectorCpp::MySQLConnectorCpp", "", "-lmysqlcppconn"};
  if (includes("<pqxx/pqxx>")) return {"rowlock", "", "pqxx", "libpqxx", ""};
  if (includes("<QSqlDatabase>")) return {"rowlock", "Qt5Sql", "Qt5::Sql", "Qt5Sql", "-fPIC"};
  if (includes("<soci/soci.h>")) return {"soci", "SOCI", "SOCI::core", "", "-lsoci_core"};
  return {"rowlock", "", "", "", ""};
}

/// Each of lib/examples, by find_package and by pkg-config; none of which reads a command line of no words.
void check_examples(installation const& there) {
  fs::remove_all(there.file("build"));  // which must not find the other drivers
  int built = 0;
  for (auto const& entry : fs::directory_iterator(sources + "/lib/examples")) {
    if (entry.path().extension() != ".cpp") continue;
    auto const source = entry.path().string();
    CAPTURE(source);
    auto const d = driver_of_example(source);
    auto const configured =
        there.configure(d.component, source, fmt::format("-D packages={} -D also={}", d.package, d.target));
    REQUIRE_MESSAGE(configured.status == 0, configured.output);
    done(fmt::format("'{}' --build '{}'", ROWLOCK_CMAKE, there.file("build")));
    auto const package = d.component == "rowlock" ? d.component : "rowlock-" + d.component;
    for (auto const& program : {there.file("build/consumer"),
                                there.compile_source(source, package + " " + d.pkg_config, "", d.libs)})
      CHECK(shell(there.with_libraries() + "'" + program + "'").status == 64);
    ++built;
  }
  CHECK(built >= 10);
}

/// They go together in one version only, and the libraries need the drivers.
void check_dependencies(installation const& there) {
  auto const field = [&](std::string const& package, std::string const& name) {
    return done(fmt::format("dpkg-deb -f '{}/'{}_*.deb {}", there.file("debs"), package, name));
  };
  std::string const same = "librowlock0 (= " ROWLOCK_VERSION "-1)";
  CHECK(field("rowlock", "Depends").starts_with(same));
  CHECK(field("rowlock", "Depends").find("passwd") != std::string::npos);  // postinst makes a user
  CHECK(field("librowlock-dev", "Depends") == same + "\n");
  auto const drivers = field("librowlock0", "Depends");
  for (std::string const one : {"libc6 (>=", "libpq5 (>=", "libsqlite3-0 (>=", "libmysqlcppconn7",
                                "liburiparser1 (>=", "libsoci-core4.0 (>="})
    CHECK_MESSAGE(drivers.find(one) != drivers.npos, one << " in " << drivers);
  CHECK(field("rowlock", "Depends").find("libpq5") == std::string::npos);
  CHECK(field("rowlock", "Version") == ROWLOCK_VERSION "-1\n");
  // Programs that are packaged with the libraries depend on them, and the loader hears of them.
  auto const shlibs =
      done(fmt::format("dpkg-deb -I '{}/'librowlock0_*.deb shlibs triggers", there.file("debs")));
  CHECK(shlibs.find("librowlock-sqlite 0 librowlock0 (>= ") != shlibs.npos);
  CHECK(shlibs.find("activate-noawait ldconfig") != shlibs.npos);
}

/// By dpkg itself, into a root of its own, without what the package depends on.
void check_removal(installation const& there) {
  auto const root = there.file("system");
  auto const links = "find '" + root + "/etc' -name 'rowlock*'";
  auto const dpkg = [&](std::string const& what) {
    return done(fmt::format("dpkg --root='{}' --force-depends --force-script-chrootless --log=/dev/null {}",
                            root, what));
  };
  done(
      fmt::format("mkdir -p '{0}/var/lib/dpkg/updates' '{0}/var/lib/dpkg/info' '{0}/etc' && "
                  "touch '{0}/var/lib/dpkg/status'",
                  root));
  dpkg("--install '" + there.file("debs") + "'/rowlock_*.deb");
  CHECK(done(links).empty());
  done("systemctl --root='" + root + "' enable rowlock-reap.timer rowlock-lead@scheduler.service");
  REQUIRE_FALSE(done(links).empty());
  dpkg("--install '" + there.file("debs") + "'/rowlock_*.deb");  // as an upgrade does it
  CHECK_FALSE(done(links).empty());
  dpkg("--remove rowlock");
  CHECK_MESSAGE(done(links).empty(), done(links));
}

// In one case, because making them takes the most of it.
TEST_CASE(
    "C31, C86: Debian packages <sqlite>: the program and its manual are there, examples are built with them, "
    "and removal leaves no timer behind") {
  installation const there(ROWLOCK_SHARED_BUILD, installation::from::packages);
  check_dependencies(there);
  check_places(there);
  check_development(there);
  check_examples(there);
  check_removal(there);
}

TEST_CASE("the reaper's unit keeps what systemd can keep from it") {
  // In tenths: what is left (the network, Unix sockets) is what it works with.
  auto const o = shell("systemd-analyze security --offline=true --threshold=20 '" + sources +
                       "/tools/systemd/rowlock-reap.service'");
  CHECK_MESSAGE(o.status == 0, o.output);
}

}  // namespace
}  // namespace rowlock::test
