# Sourced by the scripts beside it, after common.sh: servers of versions that are not installed. The packages of another
# release of Debian, with all the libraries that they need, are unpacked into a folder of their own and run there by their own
# loader, because the libraries of this release may be too old for them. A package of npm brings its libraries along. Nothing
# that is installed here is touched.
# Each script that has a "fetch" defines
#   choose VERSION  sets, for the version that is to be fetched (fails if it knows none of that number),
#                   kind_of_folder  the folder's name in the cache
#                   wanted          what it is, for messages
#                   release         the release of Debian that has it
#                   packages        which ones
#                   npm_package     instead of these two: a package of npm, with its version
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
  choose "${1:-}"
  folder=$(cache)/$kind_of_folder
  [ -d "$folder" ] || fail "there is no $wanted in $folder: call tests/servers/${0##*/} fetch${1:+ $1}"
  echo "$folder"
}

# loader FOLDER: the dynamic loader of what is unpacked there; the libraries are beside it.
loader() { first_of "$1"/usr/lib/*-linux-gnu*/ld-linux*.so.* "$1"/usr/lib64/ld-linux*.so.*; }

# first_of PATH...: the first that exists.
first_of() {
  local each
  for each; do [ ! -e "$each" ] || { echo "$each"; return; }; done
  fail "there is none of $*"
}

# wrap FOLDER FILE...: programs that another program starts by their names can't be given to the loader by it. In their
# places come scripts that do so; the folder can still be moved.
wrap() {
  local root=$1 file back libraries
  libraries=$(realpath --relative-to="$root" "$(dirname "$(loader "$root")")")
  shift
  for file; do
    [ ! -e "$file.real" ] || continue
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

# download_npm FOLDER: the package's files into FOLDER. npm's packages have no symbolic links; these list them in a file.
download_npm() {
  local links
  command -v npm >/dev/null || { echo "npm is needed: install the package npm" >&2; return 1; }
  (cd "$1" && timeout --foreground -k 5 300 npm pack --silent "$npm_package" >/dev/null && tar -xzf ./*.tgz --strip-components=1 \
    --no-same-owner && rm ./*.tgz) || return
  sed 's/},{/\n/g' "$1/native/pg-symlinks.json" | sed -n 's/.*"source":"\([^"]*\)","target":"\([^"]*\)".*/\1 \2/p' |
    while read -r links; do ln -s "$(basename "${links% *}")" "$1/${links#* }" || return; done
}

fetch() {
  local folder package
  choose "${1:-}"
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
  mkdir "$new/root"
  if [ -n "$npm_package" ]; then
    download_npm "$new/root" || fail "$wanted can't be had from npm ($npm_package)"
  else
    download "$new/apt" || fail "$wanted can't be had from Debian's archive (${packages[*]} of $release, $(mirror))"
    for package in "$new"/apt/archives/*.deb; do
      dpkg-deb -x "$package" "$new/root" || fail "$package can't be unpacked"
    done
  fi
  # Tried out, so that what is in place works.
  try_out "$new/root" >"$new/version" 2>&1 || { cat "$new/version" >&2; fail "the $wanted that was fetched does not run here"; }
  mv -T "$new/root" "$folder/$kind_of_folder"
}

# fetch_or_run ARGUMENT...: the command line of a script that has "fetch" and "where" besides run_verb's.
fetch_or_run() {
  case ${2:-} in
    fetch | where)
      [ $# -le 3 ] || { usage >&2; exit 64; }
      "${@:2}"
      ;;
    wrap)
      [ $# = 3 ] || { usage >&2; exit 64; }
      try_out "$(realpath -e -- "$3")"
      ;;
    *) run_verb "$@" ;;
  esac
}

# Prints the folder with the programs of the server in $dir, if they are not the installed ones: those that it was made with. Those
# of a new one are named by the environment.
other_programs() {
  local -r wanted=ROWLOCK_TEST_${0##*/}_PROGRAMS
  if [ -e "$dir/kind" ]; then
    cat "$dir/programs" 2>/dev/null || true
  else
    printenv "${wanted^^}" || true
  fi
}

# note_programs FOLDER: for other_programs.
note_programs() { [ -z "$1" ] || as_server sh -c 'echo "$1" >"$2"' sh "$1" "$dir/programs"; }
