# Sourced by the scripts beside it: what private servers of every kind have in common. Each of those defines
#   $user           who runs the server if root calls
#   main_process    prints the pid of the server's main process if it lives, else nothing
#   programs        looks for the server's programs, and says what to do if there are none
#   make_server     makes a new server in $dir
#   launch PORT     starts it, and fails if it does not run; its log is $dir/log
#   end_server      ends one that runs, at once, or in order if how_to_end is set
#   address         prints how to connect

fail() { echo "tests/servers/${0##*/}: $*" >&2; exit 1; }

# Runs a command as the server's user.
as_server() { "${as_server[@]}" "$@"; }

# One letter as in /proc/PID/stat, or "gone", also for a zombie that nobody has collected; but while one of its threads
# is still ending, its connections may be open yet.
state_of() {
  local line= threads
  { read -r line <"/proc/$1/stat"; } 2>/dev/null || { echo gone; return; }
  line=${line##*) }
  threads=(/proc/"$1"/task/*)
  if [ "${line:0:1}" = Z ] && [ ${#threads[@]} -le 1 ]; then echo gone; else echo "${line:0:1}"; fi
}

# process_in FILE ARGUMENT: the pid on the first line of FILE, if that process lives and has exactly this argument, else
# nothing: the pid in a stale file may belong to somebody else by now.
process_in() {
  local pid=
  { read -r pid <"$1"; } 2>/dev/null || return 0
  [ -n "$pid" ] && [ "$(state_of "$pid")" != gone ] || return 0
  tr '\0' '\n' 2>/dev/null <"/proc/$pid/cmdline" | grep -qxF -- "$2" && echo "$pid" || true
}

children_of() {
  local file line pid ppid
  for file in /proc/[0-9]*/stat; do
    { read -r line <"$file"; } 2>/dev/null || continue
    read -r _ ppid _ <<<"${line##*) }"
    if [ "$ppid" = "$1" ]; then pid=${file#/proc/}; echo "${pid%/stat}"; fi
  done
}

# wait_until STATE PID...: until all are in that state, a minute at most.
wait_until() {
  local wanted=$1 pid tries=0
  shift
  for pid; do
    until [ "$(state_of "$pid")" = "$wanted" ]; do
      [ "$(state_of "$pid")" = gone ] && break
      tries=$((tries + 1))
      [ $tries -lt 6000 ] || fail "process $pid did not get into state $wanted within a minute"
      sleep 0.01
    done
  done
}

running_process() {
  local main
  main=$(main_process)
  [ -n "$main" ] || fail "no server runs in $dir"
  echo "$main"
}

# Prints the main process and all its children, all stopped: the main one first, so that it makes no new ones meanwhile.
freeze() {
  local main pids
  main=$(running_process) || exit
  kill -STOP "$main"
  wait_until T "$main"
  pids=$(children_of "$main")
  # A child may end by itself in between.
  [ -z "$pids" ] || kill -STOP $pids 2>/dev/null || true
  wait_until T $pids
  echo "$main" $pids
}

thaw() {
  local main
  main=$(running_process) || exit
  # The main process last, so that none is left stopped.
  kill -CONT $(children_of "$main") "$main" 2>/dev/null || true
}

kill_all() {
  local pids
  pids=$(freeze)
  kill -KILL $pids 2>/dev/null || true
  wait_until gone $pids
}

# claim PORT: nobody else of this run of the tests gets it from now on, also while its server is down.
claim() { [ -z "${ROWLOCK_TEST_PORTS:-}" ] || mkdir "$ROWLOCK_TEST_PORTS/$1" 2>/dev/null; }

free_port() {
  local highest=32767 low port try
  read -r low _ </proc/sys/net/ipv4/ip_local_port_range 2>/dev/null || low=32768
  # Below the ports that outgoing connections get, so that the same port is still free after a restart.
  [ "$low" -gt 12000 ] && highest=$((low - 1))
  for try in {1..200}; do
    port=$((10000 + (RANDOM * 32768 + RANDOM) % (highest - 10000)))
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || ! claim "$port" || { echo "$port"; return; }
  done
  fail "found no free port on 127.0.0.1"
}

# The folder, its owner, and a random password in it.
make_folder() {
  local password
  password=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
  mkdir -p "$dir"
  [ "$(id -u)" != 0 ] || chown "$user": "$dir"
  chmod 700 "$dir"
  as_server test -w "$dir" || fail "$dir can't be reached by the user who runs the server: use a folder directly under /tmp"
  as_server sh -c 'umask 077; cat >"$1"' sh "$dir/password" <<<"$password"
  if [ -n "$clock_library" ]; then
    # What was built may lie in a folder that the user who runs the server can't enter.
    as_server test -r "$clock_library" ||
      { as_server sh -c 'cat >"$1"' sh "$dir/moved_clock.so" <"$clock_library" && clock_library=$dir/moved_clock.so; }
    echo "$clock_library" >"$dir/clock_library"
    as_server sh -c 'head -c 8 /dev/zero >"$1"' sh "$dir/clock"
  fi
}

# make_data_once KEY COMMAND: $dir/data as COMMAND makes it, and the password that it put there; or a copy of what it made
# before in this run of the tests for another server of this KEY, which says all that COMMAND depends on: it costs seconds of a
# processor. Not for PostgreSQL: a copy keeps the cluster's identifier, by which rowlock tells servers apart.
make_data_once() {
  local made=${ROWLOCK_TEST_MADE:-} lock
  [ -n "$made" ] || { "$2"; return; }
  made=$made/${0##*/}-$(cksum <<<"$1" | tr -d ' ')
  exec {lock}>"$made.lock"
  flock "$lock"
  if [ -d "$made" ]; then
    as_server cp -a "$made/data" "$made/password" "$dir"
  else
    "$2"
    rm -rf "$made.new"
    mkdir -m 711 "$made.new"
    cp -a "$dir/data" "$dir/password" "$made.new"
    mv "$made.new" "$made"
  fi
  exec {lock}>&-
}

# A certificate and its key in the folder, for the name localhost; signed by nobody but itself.
make_certificate() {
  as_server openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost,IP:127.0.0.1 \
    -keyout "$dir/server.key" -out "$dir/server.crt" >"$dir/openssl.log" 2>&1 ||
    { cat "$dir/openssl.log" >&2; fail "openssl made no certificate"; }
  as_server chmod 600 "$dir/server.key"
}

# Sets clock=(...), what a server whose clock is moved must have in its environment: a command's beginning, or nothing.
moved_clock() {
  clock=()
  [ ! -s "$dir/clock" ] || clock=(env LD_PRELOAD="$(cat "$dir/clock_library")" ROWLOCK_MOVED_CLOCK="$dir/clock")
}

start() {
  [ -z "$(main_process)" ] || fail "a server runs in $dir already"
  programs
  # Which kind it is, for whoever finds the folder.
  [ -e "$dir/kind" ] || { make_server; as_server sh -c 'echo "$1" >"$2"' sh "${0##*/}" "$dir/kind"; }
  local try chosen=$port
  for try in 1 2 3 4 5; do
    [ -n "$port" ] || chosen=$(free_port)
    if launch "$chosen"; then
      echo "$chosen" >"$dir/port"
      return
    fi
    # Somebody else took the port in between: another one, unless it was asked for.
    [ -z "$port" ] && grep -q 'Address already in use' "$dir/log" || break
  done
  tail -20 "$dir/log" >&2 || true
  fail "the server in $dir did not start; its log is above"
}

stop() {
  local main
  main=$(main_process)
  [ -n "$main" ] || return 0
  thaw
  end_server
}

# run_verb ADDRESS_VERB ARGUMENT...: the command line. Options after DIR belong to "start"; one that is not common to
# all kinds of servers must be in $own_options, and sets the variable of its name to yes.
run_verb() {
  local address_verb=$1 verb variable
  shift
  [ $# -ge 1 ] || { usage >&2; exit 64; }
  verb=$1
  shift
  case $verb in -h | --help | help) usage; exit ;; esac
  [ $# -ge 1 ] || { usage >&2; exit 64; }
  dir=$(realpath -m -- "$1")
  shift
  as_server=()
  [ "$(id -u)" != 0 ] || as_server=(setpriv --reuid="$user" --regid="$user" --clear-groups env HOME="$dir")
  durable=no max_connections= port= clock_library= settings=()
  while [ $# -gt 0 ]; do
    case $verb:$1 in
      start:--durable) durable=yes ;;
      start:--max-connections) max_connections=${2:?--max-connections needs a number} && shift ;;
      start:--port) port=${2:?--port needs a number} && shift ;;
      start:--set) settings+=("${2:?--set needs NAME=VALUE}") && shift ;;
      start:--clock) clock_library=$(realpath -e -- "${2:?--clock needs a library}") && shift ;;
      start:--standby-of | start:--node-of)
        # A kind of server that has such an option has its variable.
        variable=${1#--} variable=${variable//-/_}
        [ -n "${!variable+set}" ] || { usage >&2; exit 64; }
        declare -g "$variable=$(realpath -m -- "${2:?$1 needs a folder}")" && shift
        ;;
      start:--*)
        [[ " ${own_options:-} " = *" $1 "* ]] || { usage >&2; exit 64; }
        declare -g "${1#--}=yes"
        ;;
      *) usage >&2; exit 64 ;;
    esac
    shift
  done
  case $verb in
    start) start ;;
    "$address_verb")
      [ -s "$dir/port" ] || fail "no server was started in $dir"
      address
      ;;
    stop) stop ;;
    restart)
      how_to_end=fast stop
      port=$(cat "$dir/port")
      start
      ;;
    kill) kill_all ;;
    pause) freeze >/dev/null ;;
    resume) thaw ;;
    *) usage >&2; exit 64 ;;
  esac
}
