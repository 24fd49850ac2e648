# Sourced by the scripts beside it: several servers that have one database together, for tools/torture. Each of them is made
# by the script of its kind, in DIR/1, DIR/2 and so on. The scripts define
#   kind               whose script that is
#   nodes              how many there are
#   process_of N       prints the pid of node N's main process if it lives, else nothing
#   start_cluster OPTION...
#   address_at N       prints how to connect, so that node N is tried first
#   break_node VERB N  does VERB (kill, pause, cut) to node N, and what the cluster's operator does then
#   mend               has all of them belong to the cluster again; returns when it serves as it did at first
# and usage.
. "$(dirname "$0")/common.sh"

# node N VERB OPTION...: by the script of its kind.
node() {
  local number=$1 verb=$2
  shift 2
  "$(dirname "$0")/$kind" "$verb" "$dir/$number" "$@"
}

# within SECONDS COMMAND...: tries it until it succeeds; fails if it does not in this time.
within() {
  local end=$((SECONDS + $1))
  shift
  until "$@"; do
    [ $SECONDS -lt $end ] || return 1
    sleep 0.1
  done
}

run_cluster() {
  local verb=${1:-} number
  case $verb in -h | --help | help) usage; exit ;; esac
  [ $# -ge 2 ] || { usage >&2; exit 64; }
  dir=$(realpath -m -- "$2")
  shift 2
  case $verb in
    kill | pause | resume | cut)
      [[ "${1:-}" = [1-9] && $1 -le $nodes ]] || { usage >&2; exit 64; }
      if [ "$verb" = resume ]; then node "$1" resume; else break_node "$verb" "$1"; fi
      ;;
    start) mkdir -p "$dir" && start_cluster "$@" ;;
    addresses) for ((number = 1; number <= nodes; ++number)); do address_at "$number"; done ;;
    mend) mend ;;
    stop) for ((number = 1; number <= nodes; ++number)); do node "$number" stop; done ;;
    *) usage >&2; exit 64 ;;
  esac
}
