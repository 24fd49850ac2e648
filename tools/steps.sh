# Sourced by the scripts beside it: numbered steps with their time, and long commands with a sign of life.
# All of it goes to stderr, so that a script's own answer stands alone on stdout.

step_number=0
steps_began=$EPOCHREALTIME

# seconds_since TIME: "3.4"
seconds_since() {
  local now=$EPOCHREALTIME
  local tenths=$(((${now/[.,]/} - ${1/[.,]/}) / 100000))
  echo "$((tenths / 10)).$((tenths % 10))"
}

# step TEXT...: the heading of the next step.
step() {
  step_number=$((step_number + 1))
  step_began=$EPOCHREALTIME
  echo "$step_number. $*" >&2
}

# step_done TEXT...: what came of it, and how long it took.
step_done() { echo "   $* ($(seconds_since "$step_began") s)" >&2; }

fail() {
  echo "${0##*/}: $*" >&2
  exit 1
}

running_pid=
watcher_pid=

# in_background LOG COMMAND...: starts it in a process group of its own, whose number is in running_pid until
# somebody has waited for it. A shell's plain "&" would have it ignore Ctrl-C, and leave its children alone.
in_background() {
  local log=$1
  shift
  set -m
  "$@" >"$log" 2>&1 </dev/null &
  running_pid=$!
  set +m
}

# By a signal that has no trap: one that was just forked may still have the script's own traps, and would tidy up what
# the script needs.
end_watcher() {
  [ -n "$watcher_pid" ] || return 0
  kill -KILL "$watcher_pid" 2>/dev/null || true
  wait "$watcher_pid" 2>/dev/null || true
  watcher_pid=
}

# For traps: ends what in_background started, with its children.
end_background() {
  end_watcher
  [ -n "$running_pid" ] || return 0
  kill -TERM -- "-$running_pid" 2>/dev/null || true
  wait "$running_pid" 2>/dev/null || true
  kill -KILL -- "-$running_pid" 2>/dev/null || true
  running_pid=
}

# Shows what a long command has come to by its log: on a terminal its newest line, elsewhere a line every 20 s.
watch_log() {
  local line turns=0
  while sleep 0.25 && [ -e "$1" ]; do
    turns=$((turns + 1))
    if [ -t 2 ]; then
      line=$(tail -c 400 "$1" | tr '\r' '\n' | grep -v '^[[:space:]]*$' | tail -1) || true
      printf '\r\033[K   %5s s  %.90s' "$(seconds_since "$2")" "$line" >&2
    elif [ $((turns % 80)) = 0 ]; then
      line=$(grep -v '^[[:space:]]*$' "$1" | tail -1) || true
      echo "   $(seconds_since "$2") s: ${line:0:100}" >&2
    fi
  done
}

# quietly LOG COMMAND...: runs it with its output in LOG, of which the end is shown if it fails. Returns its status.
quietly() {
  local log=$1 status=0 began=$EPOCHREALTIME
  shift
  in_background "$log" "$@"
  watch_log "$log" "$began" &
  watcher_pid=$!
  wait "$running_pid" || status=$?
  running_pid=
  end_watcher
  [ ! -t 2 ] || printf '\r\033[K' >&2
  if [ $status -ne 0 ]; then
    tail -n 60 "$log" >&2
    echo "   failed with status $status after $(seconds_since "$began") s: $*" >&2
  fi
  return $status
}
