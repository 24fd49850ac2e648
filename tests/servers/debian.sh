# Sourced by the scripts beside it, after common.sh: servers that another release of Debian has. Its packages, with all
# the libraries that they need, are unpacked into a folder of their own and run there by their own loader, because the
# libraries of this release may be too old for them. Nothing that is installed here is touched.
# Each script that has a "fetch" defines
#   kind_of_folder  the folder's name in the cache
#   wanted          what it is, for messages
#   release         the release of Debian that has it
#   packages        which ones
#   try_out FOLDER  makes the servers in FOLDER runnable, and runs one to say its version

shared_cache=/var/cache/rowlock-tests

# The folder that has, or shall get, the one named $kind_of_folder.
cache() {
  # What root has fetched is for everybody.
  if [ "$(id -u)" = 0 ] || [ -d "$shared_cache/$kind_of_folder" ]; then
    echo "$shared_cache"
  else
    echo "${XDG_CACHE_HOME:-$HOME/.cache}/rowlock-tests"
  fi
}

where() {
  local folder
  folder=$(cache)/$kind_of_folder
  [ -d "$folder" ] || fail "there is no $wanted in $folder: call tests/servers/${0##*/} fetch"
  echo "$folder"
}

# loader FOLDER: the dynamic loader of what is unpacked there; the libraries are beside it.
loader() { printf '%s\n' "$1"/usr/lib/*-linux-gnu*/ld-linux*.so.* | head -1; }

# wrap FOLDER FILE...: programs that another program starts by their names can't be given to the loader by it. In their
# places come scripts that do so; the folder can still be moved.
wrap() {
  local root=$1 file back libraries
  libraries=$(realpath --relative-to="$root" "$(dirname "$(loader "$root")")")
  shift
  for file; do
    back=$(realpath --relative-to="$(dirname "$file")" "$root")
    mv "$file" "$file.real"
    echo "#!/bin/sh
# --argv0: programs look for what belongs to them beside the name that they were started by.
root=\${0%/*}/$back
exec \"\$root/$libraries/$(basename "$(loader "$root")")\" --argv0 \"\$0\" --library-path \"\$root/$libraries\" \"\$0.real\" \"\$@\"" >"$file"
    chmod 755 "$file"
  done
}

mirror() {
  local format='$(LABEL) $(SITE)' found
  [ -z "${DEBIAN_MIRROR:-}" ] || { echo "$DEBIAN_MIRROR"; return; }
  found=$(apt-get indextargets --format "$format" 'Created-By: Packages' 'Origin: Debian' 2>/dev/null |
    sed -n 's/^Debian //p' | head -1)
  # Without lists apt does not know what is Debian's.
  [ -n "$found" ] || found=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 2>/dev/null |
    grep -v security | head -1) || true
  [ -n "$found" ] || fail "apt knows no mirror of Debian: name one in DEBIAN_MIRROR"
  echo "$found"
}

# download FOLDER: the packages into FOLDER/archives, by an apt that knows nothing of what is installed here.
download() {
  local apt=$1 step
  mkdir -p "$apt/lists/partial" "$apt/archives/partial"
  : >"$apt/status"
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $(mirror) $release main" >"$apt/sources.list"
  echo "Dir::Etc::SourceList \"$apt/sources.list\";
Dir::Etc::SourceParts \"/dev/null\";
Dir::Etc::Preferences \"/dev/null\";
Dir::Etc::PreferencesParts \"/dev/null\";
Dir::State \"$apt\";
Dir::State::Lists \"$apt/lists\";
Dir::State::Status \"$apt/status\";
Dir::Cache \"$apt\";
Dir::Cache::Archives \"$apt/archives\";
Dir::Log \"$apt\";
Debug::NoLocking \"true\";
APT::Sandbox::User \"$(id -un)\";
APT::Install-Recommends \"false\";
Acquire::Check-Valid-Until \"false\";
Acquire::Languages \"none\";
Acquire::Retries \"3\";
Acquire::http::Timeout \"30\";
Acquire::https::Timeout \"30\";
APT::Update::Error-Mode \"any\";
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear DPkg::Post-Invoke;
#clear DPkg::Pre-Install-Pkgs;" >"$apt/apt.conf"
  for step in update "install --yes --download-only ${packages[*]}"; do
    LC_ALL=C timeout --foreground -k 5 300 apt-get -c "$apt/apt.conf" -q $step >"$apt/log" 2>&1 </dev/null ||
      { tail -n 5 "$apt/log" >&2; return 1; }
  done
}

fetch() {
  local folder package
  folder=$(cache)
  [ ! -d "$folder/$kind_of_folder" ] || return 0
  umask 022
  mkdir -p "$folder"
  # One at a time; who waited finds it there.
  exec 9>"$folder/lock"
  flock -w 600 9 || fail "somebody else has been fetching servers into $folder for 10 minutes"
  [ ! -d "$folder/$kind_of_folder" ] || return 0
  rm -rf "$folder/$kind_of_folder".new-*
  new=$(mktemp -d "$folder/$kind_of_folder.new-XXXXXX")
  trap 'rm -rf "$new"' EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP
  download "$new/apt" || fail "$wanted can't be had from Debian's archive (${packages[*]} of $release, $(mirror))"
  mkdir "$new/root"
  for package in "$new"/apt/archives/*.deb; do
    dpkg-deb -x "$package" "$new/root" || fail "$package can't be unpacked"
  done
  # Tried out, so that what is in place works.
  try_out "$new/root" >"$new/version" 2>&1 ||
    { cat "$new/version" >&2; fail "the $wanted of Debian's archive does not run here"; }
  mv -T "$new/root" "$folder/$kind_of_folder"
}

# fetch_or_run ARGUMENT...: the command line of a script that has "fetch" and "where" besides run_verb's.
fetch_or_run() {
  case ${2:-} in
    fetch | where)
      [ $# = 2 ] || { usage >&2; exit 64; }
      "$2"
      ;;
    *) run_verb "$@" ;;
  esac
}

# For servers of which this release has a version, too: whether the one in $dir is, or shall be, the fetched one.
# Asked for by --newer, or for all servers that a run of the tests starts by ROWLOCK_TEST_NEWER=yes.
is_newer() { [ -e "$dir/newer" ] || { [ "$newer" = yes ] && [ ! -e "$dir/kind" ]; }; }
